"use strict";
// Shows the values of a line chart at the pointer, or at the point that the arrow keys choose.
// The keyboard moves a slider, whose value a screen reader announces.
for (const chart of document.querySelectorAll("svg[data-points]")) {
  const figure = chart.parentNode;
  const [top, bottom] = chart.dataset.area.split(" ").map(Number);
  const series = [...chart.querySelectorAll("path[data-y]")].map(readLine);
  const lines = series.filter((line) => line.points.length);
  const places = [...new Set(lines.flatMap((line) => line.points.map((point) => point.x)))];
  places.sort((a, b) => a - b);
  const last = places.length - 1;
  if (last < 0) continue;

  function readLine(path) {
    const drawn = path.getAttribute("d").match(/[\d.-]+ [\d.-]+/g) ?? [];
    const xs = path.dataset.x.split("|");
    const ys = path.dataset.y.split("|");
    return {
      name: path.parentNode.querySelector("title")?.textContent ?? "",
      color: path.parentNode.getAttribute("class"),
      points: drawn.map((pair, i) => {
        const [x, y] = pair.split(" ").map(Number);
        return {x, y, at: xs[i], value: ys[i]};
      }),
    };
  }

  function nearest(items, x, place) {
    return items.reduce((a, b) => (Math.abs(place(b) - x) < Math.abs(place(a) - x) ? b : a));
  }

  // The values at a place: of each line those of its nearest point, and the marks there.
  function describe(number) {
    const x = places[number];
    const values = lines.map((line) => ({...line, point: nearest(line.points, x, (p) => p.x)}));
    const at = values.find((line) => line.point.x === x).point.at;
    const rows = values.map(({name, color, point}) => {
      const other = point.at === at ? "" : ` (at ${point.at})`;
      return {color: `row ${color}`, text: `${name}: ${point.value}${other}`};
    });
    for (const mark of chart.querySelectorAll(".mark[data-at]")) {
      if (Math.abs(mark.dataset.at - x) < 3) rows.push({color: "row", text: mark.textContent});
    }
    rows.unshift({color: "", text: `${chart.dataset.points}: ${at}`});
    chart.setAttribute("aria-valuenow", number);
    chart.setAttribute("aria-valuetext", rows.map((row) => row.text).join("; "));
    return {x, rows, chosen: values.map((line) => line.point)};
  }

  function show(number) {
    hide();
    const {x, rows, chosen} = describe(number);
    const group = document.createElementNS(chart.namespaceURI, "g");
    group.setAttribute("class", "cursor");
    const seen = chosen.filter(({y}) => y > top - 1 && y < bottom + 1);
    const dots = seen.map((point) => `M${point.x} ${point.y}h0`).join("");
    for (const [name, d] of [["rule", `M${x} ${top}V${bottom}`], ["places", dots]]) {
      const path = document.createElementNS(chart.namespaceURI, "path");
      path.setAttribute("class", name);
      path.setAttribute("d", d);
      group.append(path);
    }
    chart.append(group);
    const box = document.createElement("div");
    box.className = "readout";
    box.setAttribute("aria-hidden", "true");
    for (const {color, text} of rows) {
      const row = document.createElement("div");
      Object.assign(row, {dir: "auto", textContent: text, className: color});
      box.append(row);
    }
    figure.append(box);
    place(box, x);
  }

  // Beside the place, within the figure; below the lines if it would hide most of them.
  function place(box, x) {
    const {left, width, top: upper} = chart.getBoundingClientRect();
    const around = figure.getBoundingClientRect();
    const zoom = width / chart.viewBox.baseVal.width;
    const offset = left - around.left + x * zoom;
    const side = x * zoom < width / 2 ? offset + 12 : offset - 12 - box.offsetWidth;
    box.style.left = `${Math.max(0, Math.min(side, figure.clientWidth - box.offsetWidth))}px`;
    const height = box.offsetWidth > width / 2 ? bottom : top;
    box.style.top = `${upper - around.top + height * zoom}px`;
  }

  function hide() {
    chart.querySelector(".cursor")?.remove();
    figure.querySelector(".readout")?.remove();
  }

  function point(event) {
    const {left, width} = chart.getBoundingClientRect();
    const x = ((event.clientX - left) / width) * chart.viewBox.baseVal.width;
    show(places.indexOf(nearest(places, x, (each) => each)));
  }

  function press(event) {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key === "Escape") return hide();
    const now = Number(chart.getAttribute("aria-valuenow"));
    const many = Math.max(1, Math.round(last / 10));
    const moves = {ArrowLeft: now - 1, ArrowRight: now + 1, Home: 0, End: last};
    Object.assign(moves, {PageDown: now - many, PageUp: now + many});
    if (!(event.key in moves)) return;
    event.preventDefault();
    show(Math.max(0, Math.min(last, moves[event.key])));
  }

  const attributes = {tabindex: 0, role: "slider", "aria-valuemin": 0, "aria-valuemax": last};
  for (const name in attributes) chart.setAttribute(name, attributes[name]);
  describe(last);
  chart.addEventListener("pointermove", point);
  chart.addEventListener("pointerdown", point);
  chart.addEventListener("pointerleave", hide);
  chart.addEventListener("keydown", press);
  chart.addEventListener("focusout", hide);
  chart.addEventListener("focus", () => {
    if (chart.matches(":focus-visible")) show(Number(chart.getAttribute("aria-valuenow")));
  });
}
