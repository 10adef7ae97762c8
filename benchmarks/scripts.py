"""Tokens per sentence in twelve scripts, with GPT-2's pattern of words and with the project's.

    python -m benchmarks.scripts

Byte-level BPE merges within words only, so a pattern that ends words at vowel signs makes long
sequences. Each language has five subjects, objects and verbs. Of their 125 combinations, 100 are
those that a tokenizer of 2,000 tokens is trained on; the means are of the other 25.
"""

from itertools import product
from unittest.mock import patch

from tokenizers import Regex, Tokenizer

from benchmarks.common import Settings, Values, read_settings
from benchmarks.report import Row, write_report
from translate_ddp.data import tokenizer
from translate_ddp.errors import report_errors
from translate_ddp.text import normalize

VOCAB_SIZE = 2000
HELD_OUT = 5  # one combination of so many
# Radford et al. 2019: the words of GPT-2, letters without their marks.
GPT2 = Regex(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")

# The parts of a sentence in the order of the language; "/" is between the choices of a part.
WORDS = {
    "Italian": (
        "il medico/la maestra/il ragazzo/la nonna/il vicino",
        "legge/scrive/cerca/porta/vende",
        "la lettera/il libro/il giornale/la scatola/il cappello",
    ),
    "Greek": (
        "ο γιατρός/η δασκάλα/το παιδί/η γιαγιά/ο γείτονας",
        "διαβάζει/γράφει/ψάχνει/φέρνει/πουλάει",
        "το γράμμα/το βιβλίο/την εφημερίδα/το κουτί/το καπέλο",
    ),
    "Hindi": (
        "डॉक्टर/अध्यापिका/लड़का/दादी/पड़ोसी",
        "चिट्ठी/किताब/अख़बार/डिब्बा/टोपी",
        "पढ़ता है/लिखता है/ढूँढता है/लाता है/बेचता है",
    ),
    "Bengali": (
        "ডাক্তার/শিক্ষিকা/ছেলেটি/দাদি/প্রতিবেশী",
        "চিঠি/বই/খবরের কাগজ/বাক্স/টুপি",
        "পড়ে/লেখে/খোঁজে/আনে/বেচে",
    ),
    "Tamil": (
        "மருத்துவர்/ஆசிரியை/சிறுவன்/பாட்டி/அண்டைவீட்டார்",
        "கடிதத்தை/புத்தகத்தை/செய்தித்தாளை/பெட்டியை/தொப்பியை",
        "படிக்கிறார்/எழுதுகிறார்/தேடுகிறார்/கொண்டுவருகிறார்/விற்கிறார்",
    ),
    "Thai": (
        "แพทย์/ครู/เด็กชาย/คุณยาย/เพื่อนบ้าน",
        "อ่าน/เขียน/หา/ถือ/ขาย",
        "จดหมาย/หนังสือ/หนังสือพิมพ์/กล่อง/หมวก",
    ),
    "Burmese": (
        "ဆရာဝန်/ဆရာမ/ကောင်လေး/အဘွား/အိမ်နီးချင်း",
        "စာ/စာအုပ်/သတင်းစာ/သေတ္တာ/ဦးထုပ်",
        "ဖတ်သည်/ရေးသည်/ရှာသည်/ယူလာသည်/ရောင်းသည်",
    ),
    "Arabic, vocalised": (
        "اَلطَّبِيبُ/اَلْمُعَلِّمُ/اَلْوَلَدُ/اَلْجَدُّ/اَلْجَارُ",
        "يَقْرَأُ/يَكْتُبُ/يَطْلُبُ/يَحْمِلُ/يَبِيعُ",
        "اَلرِّسَالَةَ/اَلْكِتَابَ/اَلْجَرِيدَةَ/اَلصُّنْدُوقَ/اَلْقُبَّعَةَ",
    ),
    "Hebrew, vocalised": (
        "הָרוֹפֵא/הַמּוֹרֶה/הַיֶּלֶד/הַסָּב/הַשָּׁכֵן",
        "קוֹרֵא/כּוֹתֵב/מְחַפֵּשׂ/מֵבִיא/מוֹכֵר",
        "אֶת הַמִּכְתָּב/אֶת הַסֵּפֶר/אֶת הָעִתּוֹן/אֶת הַקֻּפְסָה/אֶת הַכּוֹבַע",
    ),
    "Chinese": ("医生/老师/男孩/奶奶/邻居", "在读/在写/在找/拿来/卖掉", "信/书/报纸/盒子/帽子"),
    "Korean": (
        "의사가/선생님이/소년이/할머니가/이웃이",
        "편지를/책을/신문을/상자를/모자를",
        "읽는다/쓴다/찾는다/가져온다/판다",
    ),
    "Amharic": (
        "ሐኪሙ/መምህሩ/ልጁ/አያቱ/ጎረቤቱ",
        "ደብዳቤውን/መጽሐፉን/ጋዜጣውን/ሳጥኑን/ባርኔጣውን",
        "ያነባል/ይጽፋል/ይፈልጋል/ያመጣል/ይሸጣል",
    ),
}
WITHOUT_BLANKS = {"Thai", "Burmese", "Chinese"}


def main() -> None:
    with report_errors():
        settings = read_settings(Settings, __doc__)
        rows = [Row(language, measure(language)) for language in WORDS]
        write_report("scripts", "Tokens per sentence", rows, folder=settings.results)


def measure(language: str) -> Values:
    """Mean tokens per held-out sentence with each pattern."""
    blank = "" if language in WITHOUT_BLANKS else " "
    parts = [part.split("/") for part in WORDS[language]]
    held_out, training = [], []
    for places in product(*(range(len(part)) for part in parts)):
        words = [part[place] for part, place in zip(parts, places, strict=True)]
        # By the sum of the places each word is in both, equally often.
        side = training if sum(places) % HELD_OUT else held_out
        side.append(normalize(blank.join(words)))

    def mean(pattern: Regex) -> float:
        with patch.object(tokenizer, "WORDS", pattern):
            text = tokenizer.train_json(training, "bpe", VOCAB_SIZE)
        encoded = Tokenizer.from_str(text).encode_batch(held_out)
        return sum(len(each.ids) for each in encoded) / len(held_out)

    return {"GPT-2's pattern": mean(GPT2), "this pattern": mean(tokenizer.WORDS)}


if __name__ == "__main__":
    main()
