"""Text of many scripts, and text that is none."""

SCRIPTS = [
    "Perché il caffè è già così buono?",  # Italian
    "Cây đa cao lớn, mọc ở đầu làng",  # Vietnamese
    "Me\u0323yi a\u0192eme, e\u0300nya\u0301 w\u0254e",  # Ewe, decomposed
    "Старый врач читает письмо в саду.",  # Russian
    "Ο γιατρός διαβάζει το γράμμα",  # Greek
    "हिन्दी भाषा में क्‍ष लिखा है।",  # Hindi, with a joiner
    "বাংলা ভাষায় চিঠি পড়ি",  # Bengali
    "தமிழ் மொழியில் எழுதுகிறேன்",  # Tamil
    "ผู้หญิง ที่นี่ น้ำ",  # Thai
    "اَلطَّبِيبُ يَقْرَأُ الرِّسَالَةَ",  # vocalised Arabic
    "نامه را می‌خواند و می‌رود",  # Persian, with non-joiners
    "הָרוֹפֵא קוֹרֵא אֶת הַמִּכְתָּב",  # vocalised Hebrew
    "老医生在花园里读信。",  # Chinese
    "医者がニワで手紙を読む",  # Japanese
    "의사가 편지를 읽는다",  # Korean
    "ሐኪሙ ደብዳቤውን ያነባል።",  # Amharic
    "ဆရာဝန် စာဖတ်သည်။",  # Burmese
    "good 👩‍👩‍👧 👍🏽 ❤️ 🇮🇹 1️⃣",  # emoji with joiners, skin tone, variation selectors
]
ODD_TEXTS = [
    "?!...",
    "😀",
    "\0\x01\x1b[0m\x7f",
    "\u200b\u202e\ufeff",
    "\u0301",
    "a" * 10_000,
    "\u5b57" * 10_000,
    "\U0010ffff\ufffe",
]
