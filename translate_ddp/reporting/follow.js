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

  function find(main, selector) {
    return [...main.querySelectorAll(selector)];
  }

  function replaceMain(html) {
    const page = new DOMParser().parseFromString(html, "text/html");
    const old = document.querySelector("main");
    const main = page.querySelector("main");
    const open = find(old, "details").map((each) => each.open);
    const scrolled = find(old, ".scroll").map((each) => each.scrollLeft);
    const focusable = "a, input, summary, .scroll";
    const focused = find(old, focusable).indexOf(document.activeElement);
    const place = [scrollX, scrollY];
    document.title = page.title;
    for (const {id} of find(old, "input:checked")) {
      const same = page.getElementById(id);
      if (same) same.checked = true;
    }
    find(main, "details").forEach((each, k) => { each.open = open[k] ?? each.open; });
    old.replaceWith(main);
    find(main, ".scroll").forEach((each, k) => { each.scrollLeft = scrolled[k] ?? 0; });
    if (focused >= 0) find(main, focusable)[focused]?.focus({preventScroll: true});
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
