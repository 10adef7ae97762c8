"use strict";
// Replaces the content of the page when the server has a newer one.
{
  const PAUSE = 2000; // milliseconds between two requests
  const READING = 10000; // milliseconds after a look at a chart, in which it stays
  let shown = ""; // ETag of the page
  let readingUntil = 0;

  const notice = document.createElement("p");
  notice.setAttribute("role", "status");
  notice.style.cssText =
    "position: sticky; bottom: 0; margin: 0; max-width: none; text-align: center; background: var(--problem)";
  document.body.append(notice);

  // The elements of both pages, part by part: a part may be new, and move those after it.
  function pairs(old, main, selector) {
    return [...old.querySelectorAll("section, nav")].flatMap((part) => {
      const found = main.querySelectorAll(`#${part.id} :is(${selector})`);
      return [...part.querySelectorAll(selector)].slice(0, found.length).map((each, k) => [each, found[k]]);
    });
  }

  function replaceMain(html) {
    const page = new DOMParser().parseFromString(html, "text/html");
    const old = document.querySelector("main");
    const main = page.querySelector("main");
    for (const [before, after] of pairs(old, main, "details")) after.open = before.open;
    for (const [before, after] of pairs(old, main, "input")) after.checked = before.checked;
    const scrolled = pairs(old, main, ".scroll").map(([before, after]) => [after, before.scrollLeft]);
    const focused = pairs(old, main, "a, input, summary, .scroll")
      .find(([before]) => before === document.activeElement);
    const place = [scrollX, scrollY];
    document.title = page.title;
    old.replaceWith(main);
    for (const [after, left] of scrolled) after.scrollLeft = left;
    focused?.[1].focus({preventScroll: true});
    scrollTo(...place);
  }

  async function update() {
    let problem = "";
    try {
      const answer = await fetch(location.pathname, {cache: "no-cache"});
      const found = answer.headers.get("ETag");
      if (!answer.ok) {
        problem = "The server cannot make the page: see its terminal.";
      } else if (found !== shown && performance.now() > readingUntil && getSelection().isCollapsed) {
        replaceMain(await answer.text());
        shown = found;
      }
    } catch {
      problem = "The server has ended: this page no longer changes.";
    }
    if (notice.textContent !== problem) notice.textContent = problem;
    setTimeout(update, PAUSE);
  }

  for (const name of ["pointermove", "keydown"]) {
    document.addEventListener(name, (event) => {
      if (event.target.closest?.("svg")) readingUntil = performance.now() + READING;
    });
  }
  setTimeout(update, PAUSE);
}
