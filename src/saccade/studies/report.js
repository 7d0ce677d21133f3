// The interactive part of the report: one sequence at a time, in space and over time; in a second viewer of the same
// kind with what a model looks at. No library, no network, and nothing is left in the global scope.
(() => {
  "use strict";

  const parsed = (id) => JSON.parse(document.getElementById(id).textContent);
  const episodes = parsed("episodes"), looks = parsed("looks");

  // --- Small things ------------------------------------------------------------------------------------------------

  function element(name, attributes = {}, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }

  function svg(content) {
    const holder = document.createElement("template");
    holder.innerHTML = `<svg class="sample" viewBox="0 0 24 16" aria-hidden="true">${content}</svg>`;
    return holder.content.firstChild;
  }

  const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
  const known = (value) => value !== null && value !== undefined;
  const written = (value, digits = 3) => (known(value) ? value.toFixed(digits).replace("-", "−") : "–");
  const squareCentimetres = (value) => String(+(1e4 * value).toPrecision(4));
  const range = (count) => Array.from({ length: count }, (_, index) => index);
  const marked = (marks) => (marks ?? []).flatMap((mark, step) => (mark ? [step] : []));
  const steps = (list) => (list.length ? `${list.length > 1 ? "steps" : "step"} ${list.map((t) => t + 1).join(", ")}` : "none");

  // Okabe & Ito's colours; the bright ones stand back on white, the dark ones on black.
  const COLOUR = {
    blue: "#0072B2", sky: "#56B4E9", green: "#009E73", vermillion: "#D55E00", orange: "#E69F00", purple: "#CC79A7",
    yellow: "#F0E442",
  };
  const PHASES = ["sky", "orange", "green", "purple", "yellow", "vermillion", "blue"].map((name) => COLOUR[name]);
  const DASHES = [[], [7, 3], [2, 3], [9, 3, 2, 3]];

  function theme() {
    const style = getComputedStyle(document.documentElement);
    const own = (name) => style.getPropertyValue(`--${name}`).trim();
    const dark = own("dark") === "1";
    return {
      ink: own("ink"), muted: own("muted"), rule: own("rule"), paper: own("sheet"), table: own("table"),
      dark, sans: own("sans"), accent: dark ? COLOUR.sky : COLOUR.blue,
      entities: [dark ? COLOUR.sky : COLOUR.blue, COLOUR.green, COLOUR.vermillion, COLOUR.purple, COLOUR.orange, dark ? COLOUR.yellow : COLOUR.sky],
      lines: [own("ink"), COLOUR.orange, COLOUR.purple, dark ? COLOUR.sky : COLOUR.blue, COLOUR.green, COLOUR.vermillion],
    };
  }

  // --- Copying, enlarging ------------------------------------------------------------------------------------------

  for (const button of document.querySelectorAll("button.copy")) {
    button.addEventListener("click", async () => {
      const code = button.parentElement.querySelector("code");
      let copied = true;
      try {
        await navigator.clipboard.writeText(code.textContent);
      } catch {
        // Without leave to use the clipboard: select the text, and ask the older way.
        getSelection().selectAllChildren(code);
        copied = document.execCommand("copy");
      }
      button.textContent = copied ? "Copied" : "Selected";
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
  }

  for (const button of document.querySelectorAll("button.enlarge")) {
    button.addEventListener("click", () => {
      const small = button.querySelector("img"), large = document.querySelector("#large img");
      large.src = small.src;
      large.alt = small.alt;
      document.getElementById("large").showModal();
    });
  }

  // A viewer of sequences, in the elements whose names begin with `prefix`.
  function view(prefix, episodes) {
    const byId = (id) => document.getElementById(prefix + id);
    byId("viewer").hidden = false;

    // --- What is known of a sequence ---------------------------------------------------------------------------------

    const phaseNames = [...new Set(episodes.flatMap((one) => one.phase ?? []).filter(known))];
    const phaseColour = (name) => PHASES[phaseNames.indexOf(name) % PHASES.length];

    // Everything is placed in three dimensions; those that are missing are 0, or the table's height.
    function place(episode, row, dimensions) {
      const values = dimensions.map((index) => row?.[index]);
      if (!values.every(known)) return null;
      return [values[0], values[1] ?? 0, values[2] ?? episode.table_height ?? 0];
    }

    function spread(episode, row, dimensions) {
      const values = dimensions.map((index) => row?.[index]);
      return values.every(known) ? [values[0], values[1] ?? 0, values[2] ?? 0] : null;
    }

    function pairs(episode) {
      const all = episode.entities;
      const firsts = all.length > 4 ? [0] : range(all.length); // of many things, only how far the first is from each
      return firsts.flatMap((i) => range(all.length).slice(i + 1).map((j) => [all[i], all[j]]))
        .filter(([[, a], [, b]]) => a.length === b.length);
    }

    const distance = (row, a, b) => (a.concat(b).every((index) => known(row[index]))
      ? Math.hypot(...a.map((index, k) => row[index] - row[b[k]])) : null);

    function others(episode) {
      const placed = new Set(episode.entities.flatMap(([, dimensions]) => dimensions));
      return range(episode.observation_names.length).filter((index) => !placed.has(index));
    }

    // Where the skip network's prediction made at a step is about: the next opening of a gate, or the last step.
    function nextOpening(episode, step) {
      const later = episode.opening.indexOf(true, step + 1);
      return later < 0 ? episode.steps - 1 : later;
    }

    // --- State -------------------------------------------------------------------------------------------------------

    const HOME = { azimuth: -0.96, elevation: 0.42, zoom: 1 };
    const state = { number: 0, step: 0, timer: null, camera: { ...HOME } };
    const current = () => episodes[state.number];
    const flat = () => current().entities.every(([, dimensions]) => dimensions.length < 3);

    function home() {
      state.camera = flat() ? { azimuth: -Math.PI / 2, elevation: Math.PI / 2, zoom: 1 } : { ...HOME };
    }

    // --- Canvases ----------------------------------------------------------------------------------------------------

    function prepare(canvas) {
      const ratio = window.devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
      if (canvas.width !== Math.round(width * ratio)) canvas.width = Math.round(width * ratio);
      if (canvas.height !== Math.round(height * ratio)) canvas.height = Math.round(height * ratio);
      const pen = canvas.getContext("2d");
      pen.setTransform(ratio, 0, 0, ratio, 0, 0);
      pen.clearRect(0, 0, width, height);
      pen.lineJoin = pen.lineCap = "round";
      return { pen, width, height };
    }

    function line(pen, points, { colour, width = 1, dash = [], alpha = 1 }) {
      pen.save();
      pen.strokeStyle = colour;
      pen.lineWidth = width;
      pen.globalAlpha = alpha;
      pen.setLineDash(dash);
      pen.lineCap = dash.length ? "butt" : "round";
      pen.beginPath();
      let down = false;
      for (const point of points) {
        if (point && down) pen.lineTo(...point);
        else if (point) pen.moveTo(...point);
        down = Boolean(point);
      }
      pen.stroke();
      pen.restore();
    }

    // Shapes tell things apart where colours do not: corners around a middle, or null for a circle.
    const turned = (corners, start) => range(corners).map((k) => {
      const angle = start + (2 * Math.PI * k) / corners;
      return [Math.cos(angle), Math.sin(angle)];
    });
    const SHAPES = [
      null,
      turned(4, Math.PI / 4).map(([x, y]) => [1.2 * x, 1.2 * y]),
      turned(4, 0).map(([x, y]) => [1.3 * x, 1.3 * y]),
      turned(3, -Math.PI / 2).map(([x, y]) => [1.35 * x, 1.35 * y]),
      turned(3, Math.PI / 2).map(([x, y]) => [1.35 * x, 1.35 * y]),
      turned(10, -Math.PI / 2).map(([x, y], k) => (k % 2 ? [0.65 * x, 0.65 * y] : [1.45 * x, 1.45 * y])),
    ];

    function outline(pen, shape, [x, y], size) {
      pen.beginPath();
      if (!shape) pen.arc(x, y, size, 0, 2 * Math.PI);
      else shape.forEach(([dx, dy], k) => (k ? pen.lineTo(x + size * dx, y + size * dy) : pen.moveTo(x + size * dx, y + size * dy)));
      pen.closePath();
    }

    function sample(shape, colour, hollow = false) {
      const paint = hollow ? `fill="none" stroke="${colour}" stroke-width="2"` : `fill="${colour}"`;
      if (!shape) return svg(`<circle cx="12" cy="8" r="5" ${paint}/>`);
      return svg(`<polygon points="${shape.map(([x, y]) => `${12 + 5 * x},${8 + 5 * y}`).join(" ")}" ${paint}/>`);
    }

    // --- The view in space -------------------------------------------------------------------------------------------

    const space = byId("space");

    // The ball around everything that happened; predictions that lie far off are seen by zooming out.
    function extent(episode) {
      const points = episode.observation.flatMap((row) => episode.entities.map(([, own]) => place(episode, row, own))).filter(known);
      if (!points.length) points.push([0, 0, 0]);
      if (known(episode.table_height)) points.push(...points.map(([x, y]) => [x, y, episode.table_height]));
      const low = [0, 1, 2].map((axis) => Math.min(...points.map((point) => point[axis])));
      const high = [0, 1, 2].map((axis) => Math.max(...points.map((point) => point[axis])));
      const middle = low.map((value, axis) => (value + high[axis]) / 2);
      const radius = Math.max(...points.map((point) => Math.hypot(...point.map((value, axis) => value - middle[axis]))));
      return { low, high, middle, radius: radius || 1 };
    }

    function lens(box, width, height) {
      const { azimuth, elevation, zoom } = state.camera;
      const [ca, sa, ce, se] = [Math.cos(azimuth), Math.sin(azimuth), Math.cos(elevation), Math.sin(elevation)];
      const right = [-sa, ca, 0], up = [-se * ca, -se * sa, ce], towards = [ce * ca, ce * sa, se];
      const scale = (zoom * 0.43 * Math.min(width, height)) / box.radius, far = 7 * box.radius;
      const along = (point, axis) => point.reduce((sum, value, k) => sum + (value - box.middle[k]) * axis[k], 0);
      const project = (point) => {
        const depth = along(point, towards);
        const near = (scale * far) / Math.max(far - depth, 0.05 * far); // a mild perspective
        return [width / 2 + near * along(point, right), height / 2 - near * along(point, up), depth];
      };
      return { project, right, up };
    }

    // The outline, on the screen, of one standard deviation in every direction.
    function ellipse(project, middle, deviation) {
      const at = project(middle);
      let [xx, xy, yy] = [0, 0, 0];
      deviation.forEach((sd, axis) => {
        const moved = project(middle.map((value, k) => value + (k === axis ? sd / 100 : 0)));
        const [dx, dy] = [100 * (moved[0] - at[0]), 100 * (moved[1] - at[1])];
        xx += dx * dx;
        xy += dx * dy;
        yy += dy * dy;
      });
      const mean = (xx + yy) / 2, apart = Math.hypot((xx - yy) / 2, xy);
      return { at, long: Math.sqrt(mean + apart), short: Math.sqrt(Math.max(mean - apart, 0)), angle: Math.atan2(2 * xy, xx - yy) / 2 };
    }

    function niceStep(size) {
      const power = 10 ** Math.floor(Math.log10(size));
      return power * ([1, 2, 5].find((factor) => factor * power >= size * 0.999) ?? 10);
    }

    function drawGround(pen, paint, episode, box, project) {
      const table = known(episode.table_height), z = table ? episode.table_height : box.low[2];
      const square = niceStep(box.radius / 4);
      const [x0, y0] = [0, 1].map((axis) => Math.floor((box.low[axis] - 0.4 * square) / square));
      const [x1, y1] = [0, 1].map((axis) => Math.ceil((box.high[axis] + 0.4 * square) / square));
      const corner = (x, y) => project([x * square, y * square, z]).slice(0, 2);
      if (table) {
        pen.fillStyle = paint.table;
        pen.beginPath();
        [corner(x0, y0), corner(x1, y0), corner(x1, y1), corner(x0, y1)].forEach((point, k) => (k ? pen.lineTo(...point) : pen.moveTo(...point)));
        pen.fill();
      }
      for (let x = x0; x <= x1; x++) line(pen, [corner(x, y0), corner(x, y1)], { colour: paint.rule });
      for (let y = y0; y <= y1; y++) line(pen, [corner(x0, y), corner(x1, y)], { colour: paint.rule });
      return { z, text: `${table ? "table, " : ""}one square: ${square >= 1 ? `${square} m` : square >= 0.01 ? `${+(100 * square).toPrecision(3)} cm` : `${+(1000 * square).toPrecision(3)} mm`}` };
    }

    function drawAxes(pen, paint, { right, up }, height) {
      const at = [34, height - 34], axes = flat() ? [0, 1] : [0, 1, 2];
      for (const axis of axes) {
        const tip = [at[0] + 22 * right[axis], at[1] - 22 * up[axis]];
        if (Math.hypot(tip[0] - at[0], tip[1] - at[1]) < 5) continue; // it points at the eye
        line(pen, [at, tip], { colour: paint.muted, width: 1.25 });
        pen.fillStyle = paint.muted;
        pen.textAlign = "center";
        pen.textBaseline = "middle";
        pen.fillText("xyz"[axis], at[0] + 30 * right[axis], at[1] - 30 * up[axis]);
      }
    }

    // A name beside its marker, on the first side where it covers no other one.
    function label(pen, paint, text, [x, y], taken, width, gap) {
      const long = pen.measureText(text).width;
      const sides = [[gap, -6], [-gap - long, -6], [-long / 2, -gap - 12], [-long / 2, gap - 1], [gap, 9], [-gap - long, 9]];
      const boxes = sides.map(([dx, dy]) => [clamp(x + dx, 2, Math.max(width - long - 2, 2)), y + dy, long, 13]);
      const free = boxes.find((a) => taken.every((b) => a[0] > b[0] + b[2] || b[0] > a[0] + a[2] || a[1] > b[1] + b[3] || b[1] > a[1] + a[3]));
      const box = free ?? boxes[0];
      taken.push(box);
      pen.textAlign = "left";
      pen.textBaseline = "top";
      pen.lineWidth = 3.5;
      pen.strokeStyle = paint.paper;
      pen.strokeText(text, box[0], box[1]);
      pen.fillStyle = paint.ink;
      pen.fillText(text, box[0], box[1]);
    }

    function drawSpace() {
      const episode = current(), step = state.step, paint = theme();
      if (!episode.entities.length) return;
      const { pen, width, height } = prepare(space), box = extent(episode);
      const camera = lens(box, width, height), { project } = camera;
      const on = (point) => (point ? project(point).slice(0, 2) : null);
      pen.font = `12px ${paint.sans}`;
      const ground = drawGround(pen, paint, episode, box, project);
      drawAxes(pen, paint, camera, height);
      pen.textAlign = "right";
      pen.textBaseline = "alphabetic";
      pen.fillStyle = paint.muted;
      pen.fillText(ground.text, width - 10, height - 12);

      const things = episode.entities.map(([name, own], index) => ({
        name, colour: paint.entities[index % paint.entities.length], shape: SHAPES[index % SHAPES.length],
        size: 5 + 2.25 * Math.min(index, 3), // nested where things are at the same place, as hand, object and goal are
        path: episode.observation.slice(0, step + 1).map((row) => place(episode, row, own)),
        now: place(episode, episode.observation[step], own),
        ahead: place(episode, episode.skip_mean?.[step], own),
        unsure: spread(episode, episode.skip_sd?.[step], own),
        then: step < episode.steps - 1 ? place(episode, episode.observation[nextOpening(episode, step)], own) : null,
      }));
      for (const thing of things) {
        // A shadow under each thing shows how far above the table it is.
        if (!thing.now || flat()) continue;
        const foot = [thing.now[0], thing.now[1], ground.z];
        line(pen, [on(thing.now), on(foot)], { colour: paint.muted, dash: [1, 4], alpha: 0.8 });
        pen.fillStyle = paint.muted;
        pen.beginPath();
        pen.ellipse(...on(foot), 4, 4 * Math.max(Math.abs(Math.sin(state.camera.elevation)), 0.15), 0, 0, 2 * Math.PI);
        pen.fill();
      }
      for (const thing of things) line(pen, thing.path.map(on), { colour: thing.colour, width: 2.25, alpha: 0.75 });
      for (const thing of [...things].reverse()) {
        if (!thing.ahead) continue;
        if (thing.unsure) {
          const { at, long, short, angle } = ellipse(project, thing.ahead, thing.unsure);
          pen.save();
          pen.beginPath();
          pen.ellipse(at[0], at[1], long, short, angle, 0, 2 * Math.PI);
          pen.fillStyle = pen.strokeStyle = thing.colour;
          pen.globalAlpha = 0.1;
          if (short < Math.max(width, height)) pen.fill(); // one that is wider would only tint everything
          pen.globalAlpha = 0.8;
          pen.lineWidth = 1.5;
          pen.setLineDash([4, 3]);
          pen.stroke();
          pen.restore();
        }
        if (thing.now) line(pen, [on(thing.now), on(thing.ahead)], { colour: thing.colour, width: 1.25 });
        if (thing.then) {
          const [x, y] = on(thing.then);
          for (const [colour, thick] of [[paint.paper, 4], [thing.colour, 2]]) {
            line(pen, [[x - 5, y], [x + 5, y], null, [x, y - 5], [x, y + 5]], { colour, width: thick });
          }
        }
        outline(pen, thing.shape, on(thing.ahead), thing.size);
        pen.fillStyle = paint.paper;
        pen.fill();
        pen.lineWidth = 2;
        pen.strokeStyle = thing.colour;
        pen.stroke();
      }
      const seen = things.filter((thing) => thing.now).reverse();
      for (const thing of seen) {
        outline(pen, thing.shape, on(thing.now), thing.size);
        pen.lineWidth = 3;
        pen.strokeStyle = paint.paper;
        pen.stroke();
        pen.fillStyle = thing.colour;
        pen.fill();
      }
      const looked = things[episode.focus?.[step]], ring = looked ? looked.size + 7 : 0;
      if (looked?.now) {
        for (const [colour, thick] of [[paint.paper, 7], [looked.colour, 3.5]]) {
          outline(pen, null, on(looked.now), ring);
          pen.lineWidth = thick;
          pen.strokeStyle = colour;
          pen.stroke();
        }
      }
      const taken = seen.map((thing) => {
        const [x, y] = on(thing.now), half = thing === looked ? ring : 8;
        return [x - half, y - half, 2 * half, 2 * half];
      });
      for (const thing of seen) label(pen, paint, thing.name, on(thing.now), taken, width, thing === looked ? ring + 5 : 15);
      space.setAttribute("aria-label", `View in space at step ${step + 1}${looked ? `, looking at ${looked.name}` : ""}: ${things.map((thing) => `${thing.name} at ${thing.now ? thing.now.map((value) => written(value, 2)).join(", ") : "an unknown place"}`).join("; ")}`);
    }

    // --- What is seen now and expected, in numbers ---------------------------------------------------------------------

    function drawReadout() {
      const episode = current(), step = state.step, paint = theme();
      if (episode.focus) return drawChoice(episode, step, paint);
      const now = episode.observation[step], ahead = episode.skip_mean?.[step], unsure = episode.skip_sd?.[step];
      const rows = episode.entities.map(([name, own], index) => [name, own, sample(SHAPES[index % SHAPES.length], paint.entities[index % paint.entities.length])]);
      const rest = others(episode);
      rows.push(...rest.slice(0, 8).map((index) => [episode.observation_names[index], [index], null]));
      const cell = (row, own) => own.map((index) => written(row?.[index])).join(" ");
      byId("readout").replaceChildren(...rows.map(([name, own, glyph]) => {
        const sds = own.map((index) => unsure?.[index]).filter(known);
        const sd = sds.length ? Math.sqrt(sds.reduce((sum, value) => sum + value * value, 0) / sds.length) : null;
        return element("tr", {},
          element("th", { scope: "row" }, element("span", {}, ...(glyph ? [glyph] : []), name.replaceAll("_", " "))),
          element("td", {}, cell(now, own)),
          ...(episode.skip_mean ? [element("td", {}, cell(ahead, own), ...(sd === null ? [] : [element("small", {}, `± ${written(sd)}`)]))] : []));
      }));
      byId("expected").hidden = !episode.skip_mean;
      const what = !episode.skip_mean ? "What is seen" : step >= episode.steps ? "After the last step: nothing is expected any more" : `Expected at the next opening, here step ${nextOpening(episode, step) + 1}`;
      byId("readout-caption").textContent = step === episode.steps - 1 && ahead ? "Expected at the next opening, beyond the last step" : what;
      const most = Math.max(...episode.entities.map(([, own]) => own.length), 0);
      byId("readout-unit").textContent = `Metres${most > 1 ? `: ${["x", "y", "z"].slice(0, most).join(", ")} of each thing` : ""}.${rest.length > 8 ? ` ${rest.length - 8} more dimensions are not shown.` : ""}`;
    }

    // How unsure the model would be with each focus: the one with the least is chosen.
    function drawChoice(episode, step, paint) {
      const chosen = episode.focus[step];
      byId("now").textContent = "next step";
      byId("expected").textContent = "next event";
      byId("readout-caption").textContent = known(chosen) ? `Looks at the ${episode.entities[chosen][0]}; how unsure it would be with each focus` : "After the last step: nothing is chosen any more";
      byId("readout-unit").textContent = "Predicted variance of the hand's position, in cm², in the next step and at the next event boundary; of the three, the least is drawn full.";
      const gauge = (values, index) => {
        const value = values?.[index];
        if (!known(value)) return element("td", {}, "–");
        const bar = element("span", { class: value === Math.min(...values.filter(known)) ? "bar least" : "bar" });
        bar.style.width = `${(100 * value) / (Math.max(...values) || 1)}%`;
        return element("td", {}, element("span", { class: "gauge" }, bar), squareCentimetres(value));
      };
      byId("readout").replaceChildren(...episode.entities.map(([name], index) => {
        const glyph = sample(SHAPES[index % SHAPES.length], paint.entities[index % paint.entities.length]);
        return element("tr", index === chosen ? { class: "chosen" } : {},
          element("th", { scope: "row" }, element("span", {}, glyph, name.replaceAll("_", " "))),
          gauge(episode.intra[step], index), gauge(episode.inter[step], index));
      }));
    }

    // --- Traces over time ----------------------------------------------------------------------------------------------

    const LEFT = 52, RIGHT = 8;
    const traces = byId("traces");
    let drawTraces = () => {};

    // Step t covers the space from t to t + 1; the last cell is what followed the last action.
    const across = (episode, width) => (t) => LEFT + (t * (width - LEFT - RIGHT)) / (episode.steps + 1);

    function ticks(low, high, wanted) {
      const gap = niceStep((high - low) / wanted || 1);
      const first = Math.ceil(low / gap - 1e-9);
      return range(Math.max(Math.floor(high / gap + 1e-9) - first + 1, 0)).map((k) => +((first + k) * gap).toPrecision(6));
    }

    function boundaryLines(pen, paint, episode, x, height) {
      for (const t of marked(episode.boundary)) line(pen, [[x(t), 0], [x(t), height]], { colour: paint.ink, alpha: 0.4 });
    }

    function vertical(pen, paint, low, high, top, bottom, right) {
      const y = (value) => bottom - ((value - low) / (high - low || 1)) * (bottom - top);
      pen.font = `11px ${paint.sans}`;
      pen.textAlign = "right";
      pen.textBaseline = "middle";
      pen.fillStyle = paint.muted;
      for (const value of ticks(low, high, 3)) {
        line(pen, [[LEFT, y(value)], [right, y(value)]], { colour: paint.rule });
        pen.fillText(String(value).replace("-", "−"), LEFT - 6, y(value));
      }
      return y;
    }

    function lines(series, { zero = false, held = false } = {}) {
      return (pen, paint, episode, x, width, height) => {
        const values = series.flatMap((one) => one.values).filter(known);
        let low = Math.min(...values, zero ? 0 : Infinity), high = Math.max(...values, zero ? 0 : -Infinity);
        if (!values.length) [low, high] = [0, 1];
        if (high - low < 1e-9) [low, high] = [low - 0.5, high + 0.5];
        const y = vertical(pen, paint, low, high, 8, height - 8, width - RIGHT);
        boundaryLines(pen, paint, episode, x, height);
        series.forEach((one, index) => {
          const points = one.values.flatMap((value, t) => {
            if (!known(value)) return [null];
            return held ? [[x(t), y(value)], [x(t + 1), y(value)]] : [[x(t + 0.5), y(value)]];
          });
          line(pen, points, { ...stroke(paint, index, one), width: 1.75 });
        });
      };
    }

    // What is about a thing has its colour.
    const stroke = (paint, index, { thing = false }) => {
      const colours = thing ? paint.entities : paint.lines;
      return { colour: colours[index % colours.length], dash: DASHES[index % DASHES.length] };
    };

    // A row for each thing, filled while it is looked at, and below them a mark at each step at which a gate opened.
    function drawFocus(pen, paint, episode, x, width, height) {
      const row = height / (episode.entities.length + 1);
      pen.font = `11px ${paint.sans}`;
      pen.textAlign = "right";
      pen.textBaseline = "middle";
      [...episode.entities.map(([name]) => name), "gates"].forEach((name, k) => {
        pen.globalAlpha = 0.045;
        pen.fillStyle = paint.ink;
        pen.fillRect(LEFT, k * row, x(episode.steps) - LEFT, row - 2);
        pen.globalAlpha = 1;
        pen.fillStyle = paint.muted;
        pen.fillText(name, LEFT - 6, (k + 0.5) * row - 1, LEFT - 8);
      });
      episode.focus.forEach((thing, t) => {
        pen.fillStyle = paint.entities[thing % paint.entities.length];
        pen.fillRect(x(t), thing * row, x(t + 1) - x(t), row - 2);
      });
      if (known(episode.end)) line(pen, [[x(episode.end - 0.5), 0], [x(episode.end - 0.5), height]], { colour: paint.ink, width: 1.5, dash: [3, 3] });
      for (const t of marked(episode.opening)) {
        outline(pen, SHAPES[4], [x(t + 0.5), height - row / 2 - 2], 4.5);
        pen.fillStyle = paint.ink;
        pen.fill();
      }
    }

    function drawPhases(pen, paint, episode, x, width, height) {
      pen.font = `${width < 500 ? 11 : 12}px ${paint.sans}`;
      pen.textAlign = "center";
      pen.textBaseline = "middle";
      for (let start = 0, end; start < episode.steps; start = end) {
        const name = episode.phase[start];
        for (end = start; end < episode.steps && episode.phase[end] === name; end++);
        if (!known(name)) continue;
        pen.globalAlpha = paint.dark ? 0.4 : 0.38;
        pen.fillStyle = phaseColour(name);
        pen.fillRect(x(start), 0, x(end) - x(start), height);
        pen.globalAlpha = 1;
        pen.fillStyle = phaseColour(name);
        pen.fillRect(x(start), height - 3, x(end) - x(start), 3);
        if (start) line(pen, [[x(start), 0], [x(start), height]], { colour: paint.paper, width: 2 });
        pen.fillStyle = paint.ink;
        let text = name;
        while (text.length > 1 && pen.measureText(text).width > x(end) - x(start) - 3) text = text.replace(/.…?$/, "…").replace(/^…$/, "");
        if (text) pen.fillText(text, (x(start) + x(end)) / 2, height / 2 - 1);
      }
    }

    function drawGates(pen, paint, episode, x, width, height) {
      const count = episode.gate[0].length, row = height / count;
      pen.fillStyle = paint.ink;
      pen.globalAlpha = 0.045;
      pen.fillRect(LEFT, 0, x(episode.steps) - LEFT, height);
      pen.fillStyle = paint.accent;
      episode.gate.forEach((gates, t) => gates.forEach((gate, k) => {
        if (!(gate > 0)) return;
        pen.globalAlpha = 0.2 + 0.8 * Math.min(gate, 1); // the slightest opening is seen
        pen.fillRect(x(t), k * row, Math.max(x(t + 1) - x(t) - (row > 4 ? 1 : 0), 1), row - (row > 4 ? 1 : 0));
      }));
      pen.globalAlpha = 1;
      boundaryLines(pen, paint, episode, x, height);
      pen.font = `11px ${paint.sans}`;
      pen.textAlign = "right";
      pen.textBaseline = "middle";
      pen.fillStyle = paint.muted;
      for (const k of new Set([0, count - 1])) pen.fillText(k + 1, LEFT - 6, clamp((k + 0.5) * row, 6, height - 6));
    }

    function drawStrength(pen, paint, episode, x, width, height) {
      const lanes = episode.true_boundary ? 32 : 17;
      const high = Math.max(...episode.strength.filter(known), 0) || 1;
      const y = vertical(pen, paint, 0, high, lanes + 8, height - 7, width - RIGHT);
      pen.fillText("learned", LEFT - 6, 8);
      if (episode.true_boundary) pen.fillText("true", LEFT - 6, 24);
      episode.strength.forEach((value, t) => {
        if (!(value > 0)) return;
        const wide = x(t + 1) - x(t);
        pen.globalAlpha = episode.boundary[t] ? 1 : 0.4;
        pen.fillStyle = paint.accent;
        pen.fillRect(x(t) + 0.15 * wide, y(value), Math.max(0.7 * wide, 1), y(0) - y(value));
      });
      pen.globalAlpha = 1;
      for (const t of marked(episode.true_boundary)) {
        line(pen, [[x(t), 30], [x(t), y(0)]], { colour: paint.ink, dash: [2, 3] });
        outline(pen, SHAPES[2], [x(t), 24], 4.5);
        pen.fillStyle = paint.paper;
        pen.fill();
        pen.strokeStyle = paint.ink;
        pen.lineWidth = 1.5;
        pen.stroke();
      }
      for (const t of marked(episode.boundary)) {
        line(pen, [[x(t), 10], [x(t), y(0)]], { colour: paint.ink, alpha: 0.4 });
        outline(pen, SHAPES[4], [x(t), 7], 5);
        pen.fillStyle = paint.ink;
        pen.fill();
      }
    }

    function drawAxis(pen, paint, episode, x, width) {
      pen.font = `11px ${paint.sans}`;
      pen.textAlign = "center";
      pen.textBaseline = "top";
      pen.fillStyle = paint.muted;
      const end = x(episode.steps + 0.5), gap = niceStep(Math.max((44 * episode.steps) / (width - LEFT - RIGHT), 1));
      for (let shown = 1; shown <= episode.steps; shown = shown === 1 && gap > 1 ? gap : shown + gap) {
        const at = x(shown - 0.5);
        if (at < end - 28) pen.fillText(shown, at, 3);
      }
      pen.fillText("end", Math.min(end, width - 11), 3);
      pen.textAlign = "left";
      pen.fillText("step", 0, 3);
    }

    function key(series, digits) {
      const paint = theme();
      return series.map((one, index) => {
        const { colour, dash } = stroke(paint, index, one);
        const item = element("span", { class: "key" }, svg(`<path d="M1 8h22" fill="none" stroke="${colour}" stroke-width="2.5" stroke-dasharray="${dash.join(" ")}"/>`), one.name.replaceAll("_", " "), " ");
        const value = element("span", { class: "value" });
        item.append(value);
        return { item, show: (step) => { value.textContent = written(one.values[step], digits); } };
      });
    }

    function buildTraces() {
      const episode = current(), made = [];
      const add = (title, height, draw, words, series = [], digits = 2) => {
        const keys = key(series, digits);
        const canvas = element("canvas", { role: "img", "aria-label": `${title}. ${words}` });
        canvas.style.height = `${height}px`;
        const head = title ? [element("h4", {}, title, ...(keys.length ? [] : [element("small", {}, words)])), ...keys.map(({ item }) => item)] : [];
        const wrap = element("div", { class: "plot" }, canvas, element("div", { class: "cursor" }));
        made.push({ canvas, draw, keys, row: element("div", { class: "trace" }, element("div", { class: "head" }, ...head), wrap) });
      };
      if (episode.phase) add("Phases", 30, drawPhases, "what the script was doing", []);
      const gates = episode.gate[0].length;
      if (episode.focus) {
        add("Focus", 20 * (episode.entities.length + 1), drawFocus, "what is looked at, and when gates opened");
        for (const [title, rows] of [["Unsure of the next step (cm²)", episode.intra], ["Unsure of the next event (cm²)", episode.inter]]) {
          const each = episode.entities.map(([name], k) => ({ name, thing: true, values: rows.map((row) => (known(row[k]) ? 1e4 * row[k] : null)) }));
          add(title, 110, lines(each), `with each focus: ${each.map((one) => one.name).join(", ")}`, each);
        }
      }
      if (gates) add("Gates", clamp(8 * gates, 24, 200), drawGates, `${gates} latent dimensions`);
      if (episode.strength) add("Strength", 112, drawStrength, "how far the memory moved");
      const far = pairs(episode).map(([[a, own], [b, its]]) => ({ name: `${a}–${b}`, values: episode.observation.map((row) => distance(row, own, its)) }));
      if (far.length) add("Distances", 120, lines(far, { zero: true }), `in metres: ${far.map((one) => one.name).join(", ")}`, far, 3);
      const acts = episode.action_names.map((name, index) => ({ name, values: episode.action.map((row) => row[index]) }));
      if (acts.length) add("Actions", 110, lines(acts, { held: true }), acts.map((one) => one.name).join(", "), acts);
      const rest = (episode.focus ? [] : others(episode)).slice(0, 8).map((index) => ({ name: episode.observation_names[index], values: episode.observation.map((row) => row[index]) }));
      if (rest.length) add(episode.entities.length ? "Other observations" : "Observations", 110, lines(rest), rest.map((one) => one.name).join(", "), rest, 3);
      add("", 20, drawAxis, "Steps");
      traces.replaceChildren(...made.map(({ row }) => row));
      const cursors = traces.querySelectorAll(".cursor");
      drawTraces = (all) => {
        const width = made[0].canvas.clientWidth, x = across(episode, width);
        if (all) {
          const paint = theme();
          for (const { canvas, draw } of made) {
            const { pen, height } = prepare(canvas);
            draw(pen, paint, episode, x, width, height);
          }
        }
        for (const cursor of cursors) {
          cursor.style.transform = `translateX(${x(state.step)}px)`;
          cursor.style.width = `${Math.max(x(1) - x(0), 2)}px`;
        }
        for (const { keys } of made) keys.forEach(({ show }) => show(state.step));
      };
    }

    // --- Legend and words ----------------------------------------------------------------------------------------------

    function buildLegend() {
      const episode = current(), paint = theme(), first = paint.entities[0];
      const inSpace = [], items = [];
      if (episode.entities.length) {
        inSpace.push([sample(null, first), "Filled shape", "where a thing is now; its path so far is the line" + (flat() ? "." : ", the point below it the grey dot.")]);
        if (episode.skip_mean) {
          inSpace.push([sample(null, first, true), "Hollow shape", "where the skip network, from this step, expects it to be at the next event boundary."]);
          if (episode.skip_sd) inSpace.push([svg(`<ellipse cx="12" cy="8" rx="10.5" ry="6.5" fill="${first}" fill-opacity=".12" stroke="${first}" stroke-dasharray="3 2.5"/>`), "Dashed ellipse", "how unsure it is: one standard deviation (SD) each way."]);
          inSpace.push([svg(`<path d="M12 3v10M7 8h10" stroke="${first}" stroke-width="2.2"/>`), "Cross", "where it really was when a gate next opened, or at the last step."]);
        }
      }
      if (episode.focus) {
        inSpace.push([svg(`<circle cx="12" cy="8" r="6.5" fill="none" stroke="${first}" stroke-width="2.5"/><circle cx="12" cy="8" r="2.5" fill="${first}"/>`), "Ring", "what the model looks at now. It sees the other things through noise."]);
        items.push([svg(`<rect x="2" y="3" width="20" height="10" fill="${first}"/>`), "Focus", "what the model looked at, step by step; a triangle marks a step at which some gate of its memory opened, the dashed line the step at which the hand gets there: to the object, or to the goal in pointing."]);
        items.push([svg(`<path d="M1 8h22" stroke="${first}" stroke-width="2.5"/>`), "Unsure", "how unsure it would be of where the hand will be, were it to look at each thing: in the next step, and at the next event boundary. It looks where it would be the least unsure: of the next step (intra), of the next event (inter), or of both together."]);
      }
      if (episode.phase) items.push([svg(`<rect width="24" height="16" fill="${PHASES[0]}" opacity=".45"/><rect y="13" width="24" height="3" fill="${PHASES[0]}"/>`), "Phases", "what the script that moved the robot was doing. The model is never told."]);
      if (episode.strength) {
        items.push([svg(`<rect x="2" width="9" height="16" fill="${paint.accent}"/><rect x="13" width="9" height="16" fill="${paint.accent}" opacity=".35"/>`), "Gates", "the memory changes only where a gate opens, drawn the stronger the wider it does. An empty row is a dimension that kept its value."]);
        items.push([svg(`<rect x="3" y="2" width="7" height="14" fill="${paint.accent}"/><rect x="13" y="9" width="7" height="7" fill="${paint.accent}" opacity=".4"/>`), "Strength", "how far the memory moved at each step; the strong bar is the one that counts as the boundary."]);
        items.push([sample(SHAPES[4], paint.ink), "Learned boundary", "a new event begins here, as the gates say: weak openings left out, neighbours joined. The fine line runs through all plots."]);
      }
      if (episode.true_boundary) items.push([sample(SHAPES[2], paint.ink, true), "True boundary", "here the script went over to its next phase."]);
      items.push([svg(`<rect x="8" width="8" height="16" fill="${paint.accent}" opacity=".25"/>`), "Shaded column", "the step that is shown. Click or drag in any plot to go elsewhere; the arrow keys go step by step."]);
      const explain = ([glyph, name, words]) => element("div", {}, element("dt", {}, glyph, name), element("dd", {}, words));
      byId("space-legend").replaceChildren(...inSpace.map(explain));
      byId("legend").replaceChildren(...items.map(explain));
    }

    function tell() {
      const episode = current();
      const parts = [episode.kind, `seed ${episode.seed}`, `${episode.steps} steps`];
      if (episode.boundary) parts.push(`learned boundaries: ${steps(marked(episode.boundary))}`);
      if (episode.focus) {
        const first = (thing) => { const step = episode.focus.indexOf(thing); return step < 0 ? "never" : step + 1; };
        parts.push(episode.group, episode.condition, `first looks: ${episode.entities.map(([name], thing) => `${name} ${first(thing)}`).join(", ")}`);
        if (known(episode.end)) parts.push(`the hand gets there at step ${episode.end}`);
      }
      if (episode.true_boundary) parts.push(`true boundaries: ${steps(marked(episode.true_boundary))}`);
      byId("facts").textContent = parts.join(" · ");
    }

    // --- Moving through time and between sequences ---------------------------------------------------------------------

    function show() {
      const episode = current(), step = state.step, within = step < episode.steps;
      byId("step").value = step;
      const words = within ? `Step ${step + 1} of ${episode.steps}` : `End, after step ${episode.steps}`;
      const now = [];
      if (within && known(episode.phase?.[step])) now.push(episode.phase[step]);
      if (within && episode.focus) now.push(`looks at the ${episode.entities[episode.focus[step]][0]}`);
      if (within && episode.opening[step]) now.push("gate open");
      if (within && episode.boundary?.[step]) now.push("learned boundary");
      if (within && episode.true_boundary?.[step]) now.push("true boundary");
      byId("shown").textContent = words;
      byId("state").textContent = now.join(" · ");
      byId("step").setAttribute("aria-valuetext", [words, ...now].join(", "));
      byId("back").disabled = step === 0;
      byId("forward").disabled = !within;
      drawSpace();
      drawReadout();
      drawTraces(false);
    }

    function go(step) {
      state.step = clamp(step, 0, current().steps);
      show();
    }

    function pause() {
      clearInterval(state.timer);
      state.timer = null;
      byId("play").classList.remove("playing");
      byId("play").setAttribute("aria-label", "Play");
    }

    function play() {
      const last = current().steps;
      if (state.step >= last) go(0);
      state.timer = setInterval(() => {
        go(state.step + 1);
        if (state.step >= last) pause();
      }, clamp(8000 / last, 40, 300));
      byId("play").classList.add("playing");
      byId("play").setAttribute("aria-label", "Pause");
    }

    function redraw() {
      drawTraces(true);
      show();
    }

    function choose(number) {
      pause();
      const wasFlat = flat();
      state.number = clamp(number, 0, episodes.length - 1);
      const episode = current();
      if (flat() !== wasFlat) home();
      state.step = Math.min(state.step, episode.steps);
      byId("episode").value = state.number;
      byId("previous").disabled = state.number === 0;
      byId("next").disabled = state.number === episodes.length - 1;
      byId("step").max = episode.steps;
      byId("stage").classList.toggle("no-space", !episode.entities.length);
      tell();
      buildTraces();
      buildLegend();
      redraw();
    }

    const groups = new Map();
    episodes.forEach((episode, number) => {
      const { group } = episode;
      if (!groups.has(group)) groups.set(group, known(group) ? element("optgroup", { label: group }) : byId("episode"));
      groups.get(group).append(element("option", { value: number }, episode.title));
    });
    byId("episode").append(...[...groups.values()].filter((one) => one !== byId("episode")));
    byId("episode").addEventListener("change", (event) => choose(Number(event.target.value)));
    byId("previous").addEventListener("click", () => choose(state.number - 1));
    byId("next").addEventListener("click", () => choose(state.number + 1));
    byId("step").addEventListener("input", (event) => { pause(); go(Number(event.target.value)); });
    byId("back").addEventListener("click", () => { pause(); go(state.step - 1); });
    byId("forward").addEventListener("click", () => { pause(); go(state.step + 1); });
    byId("play").addEventListener("click", () => (state.timer === null ? play() : pause()));

    document.addEventListener("keydown", (event) => {
      if (event.altKey || event.ctrlKey || event.metaKey || event.target.closest("select, input, dialog, pre")) return;
      const covered = (one) => { const { top, bottom } = one.getBoundingClientRect(); return Math.min(bottom, innerHeight) - Math.max(top, 0); };
      const own = covered(byId("viewer")); // the viewer of which most is in sight is meant
      if (own <= 0 || [...document.querySelectorAll(".viewer")].some((one) => covered(one) > own)) return;
      const move = { ArrowLeft: state.step - 1, ArrowRight: state.step + 1 }[event.key];
      if (move === undefined || event.shiftKey) return;
      event.preventDefault();
      pause();
      go(move);
    });

    // Clicking or dragging in a trace. On a touch screen a vertical stroke still scrolls the page.
    function fromPointer(event) {
      const { left, width } = traces.querySelector("canvas").getBoundingClientRect();
      pause();
      go(Math.floor(((event.clientX - left - LEFT) / (width - LEFT - RIGHT)) * (current().steps + 1)));
    }
    traces.addEventListener("pointerdown", (event) => {
      if (event.button !== 0 || event.target.tagName !== "CANVAS") return;
      traces.setPointerCapture(event.pointerId);
      fromPointer(event);
    });
    traces.addEventListener("pointermove", (event) => {
      if (traces.hasPointerCapture(event.pointerId)) fromPointer(event);
    });

    // --- Turning and zooming -------------------------------------------------------------------------------------------

    function turn(azimuth, elevation) {
      state.camera.azimuth += azimuth;
      state.camera.elevation = clamp(state.camera.elevation + elevation, -0.1, Math.PI / 2);
      drawSpace();
    }

    function zoom(factor) {
      state.camera.zoom = clamp(state.camera.zoom * factor, 0.1, 12);
      drawSpace();
    }

    const fingers = new Map();
    const apart = () => { const [a, b] = [...fingers.values()]; return Math.hypot(a[0] - b[0], a[1] - b[1]); };
    space.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      space.setPointerCapture(event.pointerId);
      fingers.set(event.pointerId, [event.clientX, event.clientY]);
    });
    space.addEventListener("pointermove", (event) => {
      const before = fingers.get(event.pointerId);
      if (!before) return;
      const was = fingers.size === 2 ? apart() : 0;
      fingers.set(event.pointerId, [event.clientX, event.clientY]);
      if (fingers.size === 2) zoom(apart() / (was || 1));
      else if (fingers.size === 1) turn(-(event.clientX - before[0]) / 120, (event.clientY - before[1]) / 120);
    });
    for (const over of ["pointerup", "pointercancel"]) space.addEventListener(over, (event) => fingers.delete(event.pointerId));

    // The wheel zooms, but a scroll that began elsewhere on the page goes on when the view slides under the pointer.
    let scrolled = -Infinity;
    addEventListener("scroll", () => { scrolled = performance.now(); }, { passive: true });
    space.addEventListener("wheel", (event) => {
      if (performance.now() - scrolled < 250) return;
      event.preventDefault();
      zoom(Math.exp(-clamp(event.deltaY, -200, 200) / 500));
    }, { passive: false });

    space.addEventListener("keydown", (event) => {
      const turns = { ArrowLeft: [-0.12, 0], ArrowRight: [0.12, 0], ArrowUp: [0, 0.12], ArrowDown: [0, -0.12] }[event.key];
      if (turns && event.shiftKey) turn(...turns);
      else if (event.key === "+" || event.key === "=") zoom(1.15);
      else if (event.key === "-") zoom(1 / 1.15);
      else return;
      event.preventDefault();
    });
    byId("reset").addEventListener("click", () => { home(); drawSpace(); });

    home();
    choose(0);
    new ResizeObserver(() => requestAnimationFrame(redraw)).observe(byId("viewer"));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => choose(state.number));
  }

  // --- The viewers -------------------------------------------------------------------------------------------------

  // A second viewer is a copy of the first with names of its own.
  function copyViewer(prefix) {
    const copy = document.getElementById("viewer").cloneNode(true);
    for (const name of ["id", "for", "aria-describedby"]) {
      for (const one of [copy, ...copy.querySelectorAll("*")]) {
        if (one.hasAttribute(name)) one.setAttribute(name, prefix + one.getAttribute(name));
      }
    }
    copy.querySelector(".lead").remove(); // it has another
    return copy;
  }

  const part = (id) => [document.getElementById(id).closest("section"), document.querySelector(`nav a[href="#${id}"]`)];
  for (const one of part("gaze")) one.hidden = !looks.length;
  for (const one of part("sequences")) one.hidden = !episodes.length && looks.length > 0;
  document.getElementById("no-episodes").hidden = episodes.length > 0;
  if (looks.length) {
    part("gaze")[0].append(copyViewer("gaze-"));
    view("gaze-", looks);
  }
  if (episodes.length) view("", episodes);
})();
