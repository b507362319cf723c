"use strict";
(async () => {
  const find = (id) => document.getElementById(id);

  /** An element; texts become text, never markup. */
  const h = (tag, attributes, ...children) => {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
      if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
      else if (value !== false && value != null) made.setAttribute(name, value === true ? "" : value);
    }
    made.append(...children.flat(Infinity).filter((each) => each != null));
    return made;
  };
  /** Text in which backticks mark code. */
  const words = (text) => (text || "").split("`").map((part, n) => (n % 2 ? h("code", {}, part) : part));
  const pretty = (value) => JSON.stringify(value, null, 2);

  let description;
  try {
    description = await (await fetch("/openapi.json")).json();
  } catch (failure) {
    find("none").hidden = false;
    find("none").textContent = `The description did not come: ${failure.message}`;
    return;
  }
  const there = (thing) =>
    thing.$ref ? thing.$ref.slice(2).split("/").reduce((at, key) => at[key.replaceAll("~1", "/")], description) : thing;

  // Shapes

  const nameOf = (schema) => (schema.$ref ? schema.$ref.split("/").pop() : "");
  const kind = (schema) => {
    if (schema.anyOf) return schema.anyOf.map(kind).join(" or ");
    if (schema.$ref) return nameOf(schema) === "Json" ? "anything" : nameOf(schema);
    if (schema.enum) return schema.enum.map(pretty).join(" | ");
    const type = [schema.type].flat().join(" or ");
    return schema.items ? `${type} of ${kind(schema.items)}` : type;
  };
  const bounds = (schema) => {
    const said = [];
    const range = (least, most, unit) => {
      if (least != null && most != null) said.push(`${least} to ${most}${unit}`);
      else if (least != null) said.push(`at least ${least}${unit}`);
      else if (most != null) said.push(`at most ${most}${unit}`);
    };
    const small = (number) => (Math.abs(number) > 2 ** 53 ? undefined : number);
    range(small(schema.minimum), small(schema.maximum), "");
    if (schema.exclusiveMinimum != null) said.push(`above ${schema.exclusiveMinimum}`);
    range(schema.minLength, schema.maxLength, " characters");
    range(schema.minItems, schema.maxItems, " items");
    if (schema.default !== undefined) said.push(`default ${pretty(schema.default)}`);
    return said.length ? `, ${said.join(", ")}` : "";
  };
  const objectIn = (schema) => {
    const inner = schema.anyOf ? schema.anyOf.find((each) => each.$ref) : schema.items || schema;
    return inner && inner.$ref && there(inner).properties ? inner : null;
  };
  const field = (name, schema, required, where) =>
    h("div", { class: "field" },
      h("code", {}, name), required ? h("b", { title: "required" }, " *") : null, " ",
      h("i", {}, where ? `${where}, ` : "", kind(schema), bounds(schema)),
      schema.description ? h("p", {}, words(schema.description)) : null,
      objectIn(schema) ? later(nameOf(objectIn(schema)), () => fields(objectIn(schema))) : null);
  const fields = (schema) => {
    const shape = there(schema.items || schema);
    const required = nameOf(schema).endsWith("Body") ? shape.required || [] : []; // an answer has all of its fields
    return Object.entries(shape.properties || {}).map(([name, each]) => field(name, each, required.includes(name)));
  };
  /** What is only made when it is opened: shapes contain each other. */
  const later = (title, make) =>
    h("details", { class: "inner", ontoggle: (event) => {
      if (event.target.open && event.target.children.length === 1) event.target.append(...[make()].flat(Infinity));
    } }, h("summary", {}, title));

  // Trying it

  const request = (method, path, operation, form) => {
    const headers = {};
    const query = new URLSearchParams();
    for (const input of form.querySelectorAll("[data-in]")) {
      const { in: where, name } = input.dataset;
      if (where === "path") path = path.replace(`{${name}}`, encodeURIComponent(input.value));
      else if (input.value && where === "query") query.set(name, input.value);
      else if (input.value) headers[name] = input.value;
    }
    if (find("agent").value) headers["X-Agent-ID"] = find("agent").value;
    if (find("key").value) headers["X-API-Key"] = find("key").value;
    const body = form.querySelector("textarea")?.value;
    if (body) headers["Content-Type"] = "application/json";
    return [path + (query.size ? `?${query}` : ""), { method: method.toUpperCase(), headers, body: body || undefined }];
  };
  const send = async (url, options, answer, stop) => {
    const began = performance.now();
    const controller = new AbortController();
    stop.onclick = () => controller.abort();
    stop.hidden = false;
    const status = h("span", { class: "status" }, "…");
    const shown = h("pre", { tabindex: "0" });
    answer.replaceChildren(h("code", {}, `${options.method} ${url}`), " ", status, shown);
    try {
      const reply = await fetch(url, { ...options, signal: controller.signal, cache: "no-store" });
      const took = Math.round(performance.now() - began);
      const marks = ["x-term", "x-rev", "retry-after", "x-ignored-fields", "x-next-offset"]
        .filter((name) => reply.headers.has(name)).map((name) => `${name}: ${reply.headers.get(name)}`);
      status.textContent = [`${reply.status} in ${took} ms`, ...marks].join(" · ");
      status.classList.add(reply.ok ? "good" : "bad");
      const decoder = new TextDecoder();
      const reader = reply.body.getReader();
      for (let part = await reader.read(); !part.done; part = await reader.read()) {
        shown.append(decoder.decode(part.value, { stream: true }));
      }
      if ((reply.headers.get("content-type") || "").includes("json")) shown.textContent = pretty(JSON.parse(shown.textContent));
    } catch (failure) {
      status.textContent += controller.signal.aborted ? " stopped" : ` ${failure.message}`;
    }
    stop.hidden = true;
  };
  const trial = (method, path, operation, parameters, example) => {
    const answer = h("div", { "aria-live": "polite" });
    const stop = h("button", { type: "button", hidden: true }, "Stop");
    const asked = parameters.filter((each) => each.name !== "X-Agent-ID");
    const inputs = asked.map((each) => {
      const given = each.required ? each.example ?? "" : "";
      return h("label", {}, `${each.name}${each.required ? " *" : ""}`,
        h("input", { "data-in": each.in, "data-name": each.name, value: given, required: each.required, spellcheck: "false" }));
    });
    const body = operation.requestBody
      ? h("label", {}, "Body", h("textarea", { spellcheck: "false", rows: pretty(example).split("\n").length }, pretty(example)))
      : null;
    return h("form", { onsubmit: (event) => {
      event.preventDefault();
      send(...request(method, path, operation, event.target), answer, stop);
    } }, inputs, body, h("p", {}, h("button", {}, "Send"), stop), answer);
  };

  // Operations

  const refusals = (responses) =>
    Object.entries(responses).filter(([status]) => status !== "200").flatMap(([status, each]) =>
      there(each).description.split("\n").map((line) => h("div", { class: "field" }, h("i", {}, `${status} `), words(line.replace(/^- /, "")))));
  const opened = (method, path, operation) => {
    const parameters = (operation.parameters || []).map(there);
    const body = operation.requestBody?.content["application/json"];
    const [[media, answer]] = Object.entries(operation.responses["200"].content);
    const shape = answer.schema;
    return [
      operation.description ? h("p", {}, words(operation.description)) : null,
      h("div", { class: "halves" },
        h("div", {},
          parameters.length ? [h("h3", {}, "Parameters"), parameters.map((each) =>
            field(each.name, { description: each.description, ...each.schema }, each.required, each.in))] : null,
          body ? [h("h3", {}, `Body${operation.requestBody.required ? "" : ", may be left out"}`), fields(body.schema)] : null,
          h("h3", {}, "Answer"),
          shape.items || shape.$ref ? later(kind(shape), () => fields(shape)) : h("p", {}, media),
          answer.example !== undefined ? later("Example", () => h("pre", { tabindex: "0" },
            typeof answer.example === "string" ? answer.example : pretty(answer.example))) : null,
          h("h3", {}, "Refusals"), later("Codes", () => refusals(operation.responses))),
        h("div", {}, h("h3", {}, "Try it"), trial(method, path, operation, parameters, body?.example))),
    ].filter(Boolean);
  };
  const boxes = [...document.querySelectorAll(".op")];
  for (const box of boxes) {
    const { method, path } = box.dataset;
    const operation = description.paths[path][method];
    box.text = [path, method, operation.operationId, operation.summary, operation.description].join(" ").toLowerCase();
    box.addEventListener("toggle", () => {
      const room = box.lastElementChild;
      if (box.open && !room.dataset.full) {
        room.dataset.full = "yes";
        room.replaceChildren(...opened(method, path, operation));
      }
    });
  }

  // Finding

  const search = find("search");
  const filter = () => {
    const wanted = search.value.toLowerCase().split(/\s+/);
    for (const box of boxes) box.hidden = !wanted.every((word) => box.text.includes(word));
    for (const group of document.querySelectorAll("section")) group.hidden = !group.querySelector(".op:not([hidden])");
    find("none").hidden = boxes.some((box) => !box.hidden);
  };
  search.addEventListener("input", filter);
  document.addEventListener("keydown", (event) => {
    const typing = event.target.matches("input, textarea");
    if (event.key === "/" && !typing) { event.preventDefault(); search.focus(); }
    if (event.key === "Escape" && event.target === search) { search.value = ""; filter(); }
  });
  const goThere = () => {
    const box = boxes.find((each) => `#${each.id}` === location.hash);
    if (box) { box.open = true; box.scrollIntoView(); }
  };
  window.addEventListener("hashchange", goThere);
  find("bar").hidden = false;
  document.body.dataset.ready = "yes";
  goThere();
})();
