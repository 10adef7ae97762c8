"use strict";
// Shows the values of a line chart at the pointer, or at the point that the arrow keys choose.
// Charts may be replaced at any time, so all listeners are those of the document.
{
  const CHART = "svg[data-points]";
  const points = new WeakMap(); // of a chart: its series, and all places on the x axis
  let shown = null; // the chart whose values are shown

  // The places of a path are the sums of its pairs of integers, in tenths.
  function readLine(path) {
    const steps = path.getAttribute("d").match(/-?\d+/g) ?? [];
    const xs = path.dataset.x.split("|");
    const ys = path.dataset.y.split("|");
    let x = 0;
    let y = 0;
    return {
      name: path.parentNode.querySelector("title")?.textContent ?? "",
      color: path.parentNode.getAttribute("class"),
      points: Array.from({length: steps.length / 2}, (_, i) => {
        x += Number(steps[2 * i]);
        y += Number(steps[2 * i + 1]);
        return {x: x / 10, y: y / 10, at: xs[i], value: ys[i]};
      }),
    };
  }

  function readChart(chart) {
    if (!points.has(chart)) {
      const lines = [...chart.querySelectorAll("path[data-y]")].map(readLine);
      const series = lines.filter((line) => line.points.length);
      const places = new Set(series.flatMap((line) => line.points.map((point) => point.x)));
      points.set(chart, {series, places: [...places].sort((a, b) => a - b)});
    }
    return points.get(chart);
  }

  function nearest(items, x, place) {
    return items.reduce((a, b) => (Math.abs(place(b) - x) < Math.abs(place(a) - x) ? b : a));
  }

  // The values at a place: of each series those of its nearest point, and the marks there.
  function describe(chart, number) {
    const {series, places} = readChart(chart);
    const x = places[number];
    const values = series.map((line) => ({...line, point: nearest(line.points, x, (p) => p.x)}));
    const at = values.find((line) => line.point.x === x).point.at;
    const rows = values.map(({name, color, point}) => {
      const other = point.at === at ? "" : ` (at ${point.at})`;
      return {color, text: `${name}: ${point.value}${other}`};
    });
    for (const mark of chart.querySelectorAll(".mark[data-at]")) {
      if (Math.abs(mark.dataset.at - x) < 3) rows.push({color: "", text: mark.textContent});
    }
    const head = `${chart.dataset.points}: ${at}`;
    const text = [head, ...rows.map((row) => row.text)].join("; ");
    chart.setAttribute("aria-valuenow", number);
    chart.setAttribute("aria-valuetext", text);
    return {x, head, rows, chosen: values.map((line) => line.point)};
  }

  // A screen reader announces the value of a slider, and passes it the arrow keys.
  function prepare() {
    for (const chart of document.querySelectorAll(`${CHART}:not([tabindex])`)) {
      const last = readChart(chart).places.length - 1;
      if (last < 0) continue;
      const attributes = {tabindex: 0, role: "slider", "aria-valuemin": 0, "aria-valuemax": last};
      for (const name in attributes) chart.setAttribute(name, attributes[name]);
      describe(chart, last);
    }
  }

  function show(chart, number) {
    if (shown !== chart) hide();
    const {x, head, rows, chosen} = describe(chart, number);
    draw(chart, x, chosen);
    write(chart, x, head, rows);
    shown = chart;
  }

  function draw(chart, x, chosen) {
    chart.querySelector(".cursor")?.remove();
    const group = document.createElementNS(chart.namespaceURI, "g");
    group.setAttribute("class", "cursor");
    const [top, bottom] = chart.dataset.area.split(" ");
    const seen = chosen.filter(({y}) => y > top - 1 && y < Number(bottom) + 1);
    const dots = seen.map((point) => `M${point.x} ${point.y}h0`).join("");
    for (const [name, d] of [["rule", `M${x} ${top}V${bottom}`], ["places", dots]]) {
      const path = document.createElementNS(chart.namespaceURI, "path");
      path.setAttribute("class", name);
      path.setAttribute("d", d);
      group.append(path);
    }
    chart.append(group);
  }

  function write(chart, x, head, rows) {
    const figure = chart.parentNode;
    figure.querySelector(".readout")?.remove();
    const box = document.createElement("div");
    box.className = "readout";
    box.setAttribute("aria-hidden", "true");
    for (const {color, text} of [{color: null, text: head}, ...rows]) {
      const row = document.createElement("div");
      row.dir = "auto";
      row.textContent = text;
      if (color !== null) row.className = `row ${color}`;
      box.append(row);
    }
    figure.append(box);
    const {left, width, top} = chart.getBoundingClientRect();
    const zoom = width / chart.viewBox.baseVal.width;
    const place = x * zoom;
    const offset = left - figure.getBoundingClientRect().left + place;
    const side = place < width / 2 ? offset + 12 : offset - 12 - box.offsetWidth;
    const most = figure.clientWidth - box.offsetWidth;
    box.style.left = `${Math.max(0, Math.min(side, most))}px`;
    const [above, below] = chart.dataset.area.split(" ").map((y) => Number(y) * zoom);
    const isNarrow = box.offsetWidth > width / 2; // it would hide most of the lines
    box.style.top = `${top - figure.getBoundingClientRect().top + (isNarrow ? below : above)}px`;
  }

  function hide() {
    shown?.querySelector(".cursor")?.remove();
    shown?.parentNode?.querySelector(".readout")?.remove();
    shown = null;
  }

  function point(event) {
    const chart = event.target.closest?.(CHART);
    if (!chart || !readChart(chart).places.length) return hide();
    const {left, width} = chart.getBoundingClientRect();
    const x = ((event.clientX - left) / width) * chart.viewBox.baseVal.width;
    const {places} = readChart(chart);
    show(chart, places.indexOf(nearest(places, x, (place) => place)));
  }

  function press(event) {
    const chart = event.target.closest?.(`${CHART}[tabindex]`);
    if (!chart || event.altKey || event.ctrlKey || event.metaKey) return;
    const last = readChart(chart).places.length - 1;
    const now = Number(chart.getAttribute("aria-valuenow"));
    const many = Math.max(1, Math.round(last / 10));
    const moves = {ArrowLeft: now - 1, ArrowRight: now + 1, Home: 0, End: last};
    Object.assign(moves, {PageDown: now - many, PageUp: now + many});
    if (event.key === "Escape") return hide();
    if (!(event.key in moves)) return;
    event.preventDefault();
    show(chart, Math.max(0, Math.min(last, moves[event.key])));
  }

  document.addEventListener("pointermove", point);
  document.addEventListener("pointerdown", point);
  document.addEventListener("keydown", press);
  document.addEventListener("focusin", (event) => {
    if (event.target.matches(`${CHART}:focus-visible`)) {
      show(event.target, Number(event.target.getAttribute("aria-valuenow")));
    }
  });
  document.addEventListener("focusout", hide);
  new MutationObserver(prepare).observe(document.documentElement, {childList: true, subtree: true});
  prepare();
}
