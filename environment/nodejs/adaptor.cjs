// Runs a function in Node.js: reads an event from each line of standard input, and answers it on standard output.
//
//     echo '{"specversion":"1.0","id":"1","source":"/me","type":"greet"}' | node .landfall/adaptor.cjs index
//
// The function's folder is the current one. What the function prints goes to standard error, which is its log.
"use strict";

const { AsyncLocalStorage } = require("async_hooks");
const fs = require("fs");
const path = require("path");
const { Readable } = require("stream");

const ROOT = process.cwd();
const MAPS = ["protocol", "config", "trigger", "error"];

// Standard input and output are the adaptor's; the function's own are empty and its log.
const events = process.stdin;
const ANSWERS = 1;
Object.defineProperty(process, "stdin", { get: () => Readable.from([]) });
Object.defineProperty(process, "stdout", { get: () => process.stderr });

// Fault is an error whose trace would tell nothing: it is about what the function is or returned, not about a line of it.
class Fault extends Error {
  constructor(type, message) {
    super(message);
    this.name = type;
    this.stack = "";
  }
}

// What this process calls its answers, before their number.
const own = [0, 1].map(() => Math.random().toString(36).slice(2)).join("");
let answers = 0;

// answerTo returns an answer with nothing in it.
function answerTo(event) {
  const answer = { specversion: "1.0", id: `${own}-${++answers}`, source: event.source || "/", type: event.type || "answer" };
  for (const name of ["eventtypeversion", "execution"]) {
    if (event[name] !== undefined) answer[name] = event[name];
  }
  return answer;
}

// What 0.1 calls the attributes of 1.0.
const FIELDS = {
  "event-id": "id", source: "source", "event-type": "type", "event-type-version": "eventtypeversion", "event-time": "time",
  "schema-url": "dataschema", "content-type": "datacontenttype", data: "data",
};
const NAMES = Object.fromEntries(Object.entries(FIELDS).map(([field, name]) => [name, field]));
let draft = false; // the event that is answered is of 0.1, and so is its answer

// newer returns an event of 0.1 as one of 1.0, which has no maps but JSON of them.
function newer(old) {
  const event = { specversion: "1.0" };
  for (const [field, name] of Object.entries(FIELDS)) {
    if (old[field] !== undefined) event[name] = old[field];
  }
  for (const [name, value] of Object.entries({ error: old.error, ...old.extensions })) {
    if (value === undefined || value === null) continue;
    event[name.toLowerCase()] = typeof value === "object" ? encode(value) : value;
  }
  if (event.encoding === "base64") {
    const { encoding, data, ...rest } = event;
    return { ...rest, data_base64: data };
  }
  return event;
}

// older returns an answer as an event of 0.1.
function older(answer) {
  const old = { "cloud-events-version": "0.1" };
  const extensions = {};
  for (const [name, value] of Object.entries(answer)) {
    if (NAMES[name] !== undefined) old[NAMES[name]] = value;
    else if (name === "data_base64") [old.data, extensions.encoding] = [value, "base64"];
    else if (name === "error") old.error = mapOf(answer, name);
    else if (name !== "specversion") extensions[name] = MAPS.includes(name) ? mapOf(answer, name) : value;
  }
  return Object.keys(extensions).length === 0 ? old : { ...old, extensions };
}

// write writes an answer as one line. raw is data that is JSON already.
function write(answer, raw) {
  let line = encode(draft && answer.specversion !== undefined ? older(answer) : answer);
  if (raw !== undefined) line = `${line.slice(0, -1)},"data":${raw}}`;
  const bytes = Buffer.from(line + "\n");
  for (let at = 0; at < bytes.length; ) {
    try {
      at += fs.writeSync(ANSWERS, bytes, at);
    } catch (error) {
      if (error.code !== "EAGAIN") throw error;
    }
  }
}

// encode returns a value as JSON for every reader: half of a character would stand as \udXXX, which not all take.
function encode(value) {
  const text = JSON.stringify(value);
  if (!text?.includes("\\ud")) return text;
  return JSON.stringify(value, (_, one) => (typeof one === "string" ? Buffer.from(one).toString() : one));
}

// Bodies

const STREAMS = process.env.LANDFALL_STREAM_BODY !== undefined; // the function's data is a Readable, whatever way it came

// Body is the data of an event that follows it in parts.
class Body {
  over = false;
  unsaid = true; // that all was read
  turn = Promise.resolve();

  // take reads the next part; undefined at the end. Those who ask at the same time get one after the other.
  take() {
    return (this.turn = this.turn.then(async () => {
      if (this.over) return undefined;
      const line = await nextLine();
      const part = line === undefined ? { error: { message: "standard input has ended" } } : JSON.parse(line);
      this.over = part.last === true || part.error !== undefined;
      return part;
    }));
  }

  // pieces are those of the data, to the end or to what broke it off.
  async *pieces() {
    for (let part; (part = await this.take()) !== undefined; ) {
      const piece = bodyOf({ datacontenttype: "text/plain", ...part });
      if (piece.length > 0) yield piece;
      if (part.error !== undefined) throw new Fault("BrokenBody", `the body of the request broke off: ${part.error.message}`);
    }
  }

  // drain reads what the function did not.
  async drain() {
    while ((await this.take()) !== undefined);
  }
}

// follow makes the data of an event a Readable, and returns its body when it follows in parts.
function follow(event) {
  const body = event.datafollows === true ? new Body() : undefined;
  const data = body === undefined ? [bodyOf(event)].filter((one) => one.length > 0) : body.pieces();
  delete event.datafollows;
  delete event.data_base64;
  event.data = Readable.from(data, { objectMode: false });
  event.data.on("error", () => {}); // who reads on is told; nobody else is
  return body;
}

// read returns what an answer says of a body that was read to its end: this process may get the next event.
function read(body) {
  if (!body?.unsaid || !body.over) return {};
  body.unsaid = false;
  return { dataread: true };
}

// Errors

// told returns what is said of an error.
function told(error) {
  const isError = error instanceof Error || (error !== null && typeof error === "object" && typeof error.message === "string");
  const type = String((isError && error.name) || "Error");
  let message = String((isError ? error.message : error) || type);
  if (error instanceof Error && error.code === "MODULE_NOT_FOUND") {
    message = `${message.split("\n")[0]}; a module that Node.js does not have itself must be in the package (npm install)`;
  }
  return { message, type, trace: isError ? traceOf(error) : "" };
}

// failed returns the answer that is an error. It is in the log, too.
function failed(event, error) {
  let { message, type, trace } = { message: unsaid(error), type: "Error", trace: "" };
  try {
    ({ message, type, trace } = told(error));
  } catch {
    // what it has throws when it is asked for, or has no text
  }
  process.stderr.write(`${trace.includes(message) ? trace : `${type}: ${message}\n${trace}`.trim()}\n`);
  const answer = answerTo(event);
  answer.time = new Date().toISOString();
  answer.datacontenttype = "application/json"; // an error is JSON
  answer.error = encode({ message, type, trace });
  const headers = { "Content-Type": [answer.datacontenttype] };
  answer.protocol = encode({ type: "http", status_code: 500, headers });
  return answer;
}

// unsaid stands for an error that has no text, as Object.create(null).
function unsaid(error) {
  return `the function threw what cannot be written as text, of type ${typeof error}`;
}

// traceOf returns the frames of the function, without those of what calls it.
function traceOf(error) {
  const lines = String(error.stack || "").split("\n");
  const theirs = lines.filter((line) => !/^\s+at .*(node:|[/]\.landfall[/]|<anonymous>\)?$)/.test(line) && !line.includes(__filename));
  const places = /^(\s+at |\/|file:)/; // frames, and the place of a syntax error; a message stays as it is
  const short = (line) => (places.test(line) ? line.replaceAll(`file://${ROOT}/`, "").replaceAll(`${ROOT}/`, "") : line);
  return theirs.map(short).join("\n");
}

// Functions

// fileOf returns the file that a module's name means.
function fileOf(name) {
  const base = path.join(ROOT, name);
  const tried = name === "" ? ["index.js", "index.mjs", "index.cjs"] : [".js", ".mjs", ".cjs", "/index.js", "/index.mjs"].map((end) => name + end);
  if (fs.existsSync(path.join(base, "package.json"))) {
    try {
      return require.resolve(base);
    } catch {
      // its package.json names no file that is there
    }
  }
  for (const file of [name, ...tried].map((one) => path.join(ROOT, one))) {
    if (fs.statSync(file, { throwIfNoEntry: false })?.isFile()) return file;
  }
  const there = fs.readdirSync(ROOT).filter((file) => !file.startsWith("."));
  const modules = there.filter((file) => /\.[cm]?js$/.test(file));
  if (name === "" && modules.length === 1) return path.join(ROOT, modules[0]);
  const what = name === "" ? "it has no main in package.json" : `there is no module ${name} in it`;
  throw new Fault("MissingHandler", `no file of the package is the function: ${what}, and none of ${tried.join(", ")}; the package has: ${listed(there)}`);
}

function listed(names) {
  const most = 20;
  return names.length === 0 ? "nothing" : names.slice(0, most).join(", ") + (names.length > most ? ", …" : "");
}

// split returns the parts of an entry point: [event:]module[.export].
function split(entry) {
  const takesEvent = entry.startsWith("event:");
  const [, module, name] = /^(.*?)(?:\.([^./]*))?$/.exec(takesEvent ? entry.slice("event:".length) : entry);
  return { module, name: name || "", takesEvent };
}

let attempts = 0;

// modules returns what a file exports, and what it exports by default.
async function modules(file) {
  attempts++;
  try {
    if (!file.endsWith(".mjs")) {
      const loaded = require(file);
      return [loaded, require("util").types.isModuleNamespaceObject(loaded) || loaded?.__esModule ? loaded.default : loaded];
    }
  } catch (error) {
    if (error?.code !== "ERR_REQUIRE_ESM" && error?.code !== "ERR_REQUIRE_ASYNC_MODULE") throw error;
  }
  // An ES module that failed once would fail for ever by the same address.
  const loaded = await import(require("url").pathToFileURL(file).href + (attempts > 1 ? `?${attempts}` : ""));
  return [loaded, loaded.default];
}

// load returns a function from an event to its answer and raw data.
async function load(entry) {
  const { module, name, takesEvent } = split(entry);
  const file = fileOf(module);
  const [loaded, exported] = await modules(file);
  const named = (wanted) => loaded?.[wanted] ?? exported?.[wanted];
  const found = name !== "" ? named(name) : typeof exported === "function" ? exported : named("handler");
  if (typeof found !== "function") {
    const there = [...new Set([...Object.keys(Object(loaded)), ...Object.keys(Object(exported))])];
    let wanted = name === "" ? "neither a function as module.exports nor a function handler" : `no function ${name}`;
    if (name !== "" && there.includes(name)) wanted = `${name}, which is no function but ${typeof named(name)}`;
    throw new Fault("MissingHandler", `${path.relative(ROOT, file)} exports ${wanted}; it exports: ${listed(there)}`);
  }
  if (takesEvent || name === "handler" || (name === "" && found !== exported)) {
    return async (event) => returned(event, await found(opened(event)));
  }
  return async (event) => {
    const context = { request: requestOf(event), config: mapOf(event, "config") };
    if (found.length <= 1) return reply(event, await found(context));
    return new Promise((resolve, reject) => {
      const callback = (status, body, headers) => {
        try {
          resolve(reply(event, { status, body, headers }));
        } catch (error) {
          reject(error);
        }
      };
      Promise.resolve(found(context, callback)).then((value) => {
        // Who returns an answer will not call back. A timer or a stream is no answer.
        if (typeof value === "string" || (value && Object.getPrototypeOf(value) === Object.prototype)) {
          reject(new Fault("WrongHandler", `the function has two parameters and returned a value; call the second parameter with status, body and headers, or have only one and return { status, body, headers }`));
        }
      }).catch(reject);
    });
  };
}

// opened returns an event whose data is a value or a text where it is one, also when it came as base64.
function opened(event) {
  if (event.data_base64 === undefined || !(isJSON(event.datacontenttype) || event.datacontenttype.startsWith("text/"))) return event;
  const { data_base64, ...rest } = event;
  const text = Buffer.from(data_base64, "base64").toString();
  try {
    return { ...rest, data: isJSON(event.datacontenttype) ? JSON.parse(text) : text };
  } catch {
    return event;
  }
}

// returned makes an answer of what a function returned that got an event.
function returned(event, value) {
  const answer = answerTo(event);
  if (value === undefined || value === null) return [answer];
  if (isStream(value)) return [answer, undefined, iterate(value)];
  if (typeof value === "string") return [Object.assign(answer, { datacontenttype: "text/plain; charset=utf-8", data: value })];
  if (value instanceof Uint8Array) {
    return [Object.assign(answer, { datacontenttype: "application/octet-stream", data_base64: Buffer.from(value).toString("base64") })];
  }
  if (value.specversion === undefined) {
    const raw = encode(value);
    if (raw === undefined) throw new Fault("InvalidAnswer", `the function returned a ${typeof value}, which is no JSON`);
    return [Object.assign(answer, { datacontenttype: "application/json" }), raw];
  }
  // An event of the CloudEvents SDK knows itself how it is written.
  Object.assign(answer, typeof value.toJSON === "function" ? value.toJSON() : value);
  if (answer.data instanceof Uint8Array) {
    answer.data_base64 = Buffer.from(answer.data).toString("base64");
    delete answer.data;
  }
  checkAttributes(answer);
  return [answer];
}

// checkAttributes writes maps as JSON, and refuses what no event can have.
function checkAttributes(answer) {
  for (const [name, value] of Object.entries(answer)) {
    if (name === "data" || name === "data_base64" || value === undefined || value === null) continue;
    if (MAPS.includes(name) && typeof value === "object") {
      answer[name] = encode(value);
    } else if (!/^[a-z0-9]+$/.test(name)) {
      throw new Fault("InvalidAnswer", `the event that the function returned has the attribute ${JSON.stringify(name)}; a name has only a to z and 0 to 9`);
    } else if (value instanceof Date) {
      answer[name] = value.toISOString();
    } else if (typeof value !== "string" && typeof value !== "boolean" && value !== (value | 0)) {
      throw new Fault("InvalidAnswer", `the event that the function returned has a ${typeof value} as its attribute ${name}; it must be a string, a whole number or a bool`);
    }
  }
}

// HTTP

// requestOf returns an HTTP request. An event that is none is a POST of its data.
function requestOf(event) {
  const protocol = mapOf(event, "protocol");
  const headers = {};
  const params = {};
  for (const [name, values] of Object.entries(protocol.headers || {})) {
    const lower = name.toLowerCase();
    headers[lower] = lower === "set-cookie" ? values : values.join(lower === "cookie" ? "; " : ", ");
    if (lower.startsWith("x-fission-params-")) params[lower.slice("x-fission-params-".length)] = headers[lower];
  }
  const stream = event.data instanceof Readable ? event.data : undefined;
  const rawBody = stream === undefined ? bodyOf(event) : Buffer.alloc(0);
  if (rawBody.length > 0) headers["content-type"] ??= event.datacontenttype || "application/json";
  const url = new URL(protocol.request_url || "/", `http://${headers.host || "localhost"}`);
  headers.host ??= url.host;
  return {
    method: protocol.method || "POST",
    url: url.pathname + url.search,
    originalUrl: url.pathname + url.search,
    path: url.pathname,
    protocol: url.protocol.slice(0, -1),
    hostname: url.hostname,
    query: values(url.searchParams),
    headers,
    params: protocol.params || params,
    rawBody: stream ?? rawBody,
    body: stream ?? parsed(headers["content-type"], rawBody, event),
    get: (name) => headers[name.toLowerCase()],
    header: (name) => headers[name.toLowerCase()],
  };
}

// mapOf returns an attribute that is a map, or JSON of one.
function mapOf(event, name) {
  return typeof event[name] === "string" ? JSON.parse(event[name]) : event[name] || {};
}

// values returns parameters as an object. What is there twice is a list.
function values(parameters) {
  const found = Object.create(null);
  for (const [name, value] of parameters) {
    found[name] = found[name] === undefined ? value : [].concat(found[name], value);
  }
  return { ...found };
}

// bodyOf returns an event's data as bytes.
function bodyOf(event) {
  if (event.data_base64) return Buffer.from(event.data_base64, "base64");
  if (event.data === undefined || event.data === null) return Buffer.alloc(0);
  if (typeof event.data === "string" && !isJSON(event.datacontenttype)) return Buffer.from(event.data);
  return Buffer.from(encode(event.data));
}

// isJSON reports whether data of a type stands in an event as it is. Data without a type does.
function isJSON(contentType) {
  if (contentType === undefined || contentType === "application/json") return true;
  const kind = mediaType(contentType);
  return kind === "application/json" || kind === "text/json" || kind.endsWith("+json");
}

function mediaType(contentType) {
  return contentType.split(";")[0].trim().toLowerCase();
}

// parsed returns a body as its type says: an object, a text or bytes.
function parsed(contentType, bytes, event) {
  if (bytes.length === 0) return {};
  if (isJSON(contentType)) {
    if (event.data !== undefined) return event.data;
    try {
      return JSON.parse(bytes);
    } catch {
      return bytes.toString();
    }
  }
  const kind = mediaType(contentType);
  if (kind === "application/x-www-form-urlencoded") return values(new URLSearchParams(bytes.toString()));
  return kind.startsWith("text/") ? bytes.toString() : bytes;
}

const TOKEN = "[!#$%&'*+.^_`|~0-9A-Za-z-]+";
const isToken = new RegExp(`^${TOKEN}$`);
const isMediaType = new RegExp(`^${TOKEN}/${TOKEN}(\\s*;\\s*${TOKEN}=(${TOKEN}|"[^"\\\\]*"))*\\s*;?\\s*$`);
const hasControl = /[\x00-\x08\x0a-\x1f\x7f]/;

// reply makes an answer of what a function returned that got an HTTP request.
function reply(event, value) {
  if (typeof value === "string" || value instanceof Uint8Array || isStream(value)) value = { body: value };
  if (value === null || typeof value !== "object" || !["status", "body", "headers"].some((name) => name in value)) {
    throw new Fault("InvalidAnswer", `the function returned ${value === undefined ? "nothing" : `a value of type ${typeof value}, without status and body`}; return {status, body, headers}`);
  }
  const { status = 200, body, headers = {} } = value;
  if (!Number.isInteger(status) || status < 200 || status > 599) {
    throw new Fault("InvalidAnswer", `the function returned the status ${status}; a status is a number from 200 to 599`);
  }
  const answer = answerTo(event);
  const { bytes, kind } = content(isStream(body) ? undefined : body);
  const kept = Object.create(null); // a header may be called constructor
  for (const [name, given] of Object.entries(headers || {})) {
    for (const one of [].concat(given).map(String)) {
      if (!isToken.test(name) || hasControl.test(one)) {
        throw new Fault("InvalidAnswer", `the function returned the header ${JSON.stringify(name)}: ${JSON.stringify(one)}, which HTTP cannot have`);
      }
      if (name.toLowerCase() === "content-type") answer.datacontenttype = one;
      if (name.toLowerCase() !== "content-length") (kept[name] ??= []).push(one);
    }
  }
  if (answer.datacontenttype === undefined && bytes.length > 0) kept["Content-Type"] = [(answer.datacontenttype = kind)];
  if (answer.datacontenttype !== undefined && !isMediaType.test(answer.datacontenttype)) {
    throw new Fault("InvalidAnswer", `the function returned the content type ${JSON.stringify(answer.datacontenttype)}; one looks like text/html; charset=utf-8`);
  }
  answer.protocol = encode({ type: "http", status_code: status, headers: kept });
  if (isStream(body)) return [answer, undefined, iterate(body)];
  if (bytes.length === 0) return [answer];
  const data = bytes.toString();
  if (isJSON(answer.datacontenttype) && isPlainJSON(data)) return [answer, data.trim()];
  if (!isJSON(answer.datacontenttype) && Buffer.from(data).equals(bytes)) answer.data = data;
  else answer.data_base64 = bytes.toString("base64");
  return [answer];
}

// content returns a body as bytes, and the type that it has when the function does not say, as Express has it.
function content(body) {
  if (body === undefined || body === null) return { bytes: Buffer.alloc(0) };
  if (typeof body === "string") return { bytes: Buffer.from(body), kind: "text/html; charset=utf-8" };
  if (body instanceof Uint8Array) return { bytes: Buffer.from(body), kind: "application/octet-stream" };
  return { bytes: Buffer.from(JSON.stringify(body) ?? ""), kind: "application/json" };
}

// isPlainJSON reports whether text is JSON for every reader.
function isPlainJSON(text) {
  try {
    JSON.parse(text);
    return !/\\ud/i.test(text);
  } catch {
    return false;
  }
}

// The network

// useProxy leads to the proxy what goes to the network: older releases of Node.js do not look for one in the environment.
function useProxy(proxy) {
  const [http, https, net, tls] = ["http", "https", "net", "tls"].map((name) => require(name));

  // tunnel calls back with a connection to a host.
  const tunnel = (host, port, done) => {
    const to = `${net.isIPv6(host) ? `[${host}]` : host}:${port}`;
    const request = http.request({
      method: "CONNECT", path: to, headers: { Host: to }, createConnection: () => net.connect(Number(proxy.port), proxy.hostname),
    });
    request.once("connect", (answer, socket, said) => {
      if (answer.statusCode === 200) return done(null, socket);
      socket.destroy();
      done(new Error(`the proxy refused ${to}: ${String(said).trim() || answer.statusMessage}`));
    });
    request.once("error", done);
    request.end();
  };

  for (const { prototype } of [http.Agent, https.Agent]) {
    const direct = prototype.createConnection;
    prototype.createConnection = function (options, done) {
      const host = options.host || "localhost";
      if (options.socketPath || options.socket || (host === proxy.hostname && String(options.port) === proxy.port)) {
        return direct.call(this, options, done);
      }
      tunnel(host, options.port, (error, socket) => {
        if (error) return done(error);
        done(null, prototype === http.Agent.prototype ? socket : direct.call(this, { ...options, socket }));
      });
    };
  }

  const known = Symbol.for("undici.globalDispatcher.1");
  void new Response(); // what fetch needs is loaded with it
  const Agent = globalThis[known]?.constructor;
  if (Agent?.name !== "Agent") return; // it knows of proxies itself
  globalThis[known] = new Agent({
    connect: ({ hostname, protocol, port, servername }, done) => {
      const host = hostname.replace(/^\[|\]$/g, "");
      tunnel(host, port || (protocol === "https:" ? 443 : 80), (error, socket) => {
        if (error || protocol !== "https:") return done(error, socket);
        const secure = tls.connect({ socket, host, servername: servername || (net.isIP(host) ? undefined : host), ALPNProtocols: ["http/1.1"] });
        secure.once("error", done).once("secureConnect", () => {
          secure.off("error", done);
          done(null, secure);
        });
      });
    },
  });
}

if (process.env.NODE_USE_ENV_PROXY === "1" && process.env.HTTPS_PROXY && !process.allowedNodeEnvironmentFlags.has("--use-env-proxy")) {
  useProxy(new URL(process.env.HTTPS_PROXY));
}

// The stream

const entry = process.argv[2] ?? "";
let handle;
let failure;
let fail = report; // what becomes of an error that nobody caught

function report(error) {
  let text = unsaid(error);
  try {
    text = String((error && error.stack) || error);
  } catch {
    // nothing more can be said
  }
  process.stderr.write(`${text}\n`);
}

async function attempt() {
  try {
    handle = await load(entry);
  } catch (error) {
    failure = error ?? new Error("the module threw nothing");
  }
}

// parse reads the event of a line.
function parse(line) {
  try {
    const event = JSON.parse(line);
    draft = event?.["cloud-events-version"] !== undefined;
    if (event !== null && typeof event === "object" && !Array.isArray(event)) return draft ? newer(event) : event;
  } catch {
    // said below
  }
  throw new Fault("InvalidEvent", "standard input must have one event as a JSON object on each line");
}

// answer answers one line.
async function answer(line) {
  if (handle === undefined && failure === undefined) await attempt(); // what it lacked may be there by now
  let event = {};
  let body;
  try {
    event = parse(line);
    if (STREAMS || event.datafollows !== undefined) body = follow(event);
    if (failure !== undefined) throw failure;
    const [made, raw, pieces] = await caught(() => handle(event), {});
    if (pieces === undefined) write(body === undefined ? made : { ...made, ...read(body) }, raw);
    else await stream(event, made, pieces, body);
  } catch (error) {
    failure = undefined;
    write({ ...failed(event, error), ...read(body) });
  }
  if (body?.unsaid) {
    await body.drain();
    write(read(body));
  }
}

// stream writes an answer and the pieces of its data as they are made. Until the first one is there, nothing is written.
async function stream(event, answer, pieces, body) {
  const next = () => caught(async () => pieces.next(), current);
  // taken returns what is made of a piece. When the piece is refused, its generator ends as one whose loop is left.
  const taken = async (make) => {
    try {
      return make();
    } catch (error) {
      await caught(async () => pieces.return?.(), current).catch(report);
      throw error;
    }
  };
  let one = await next();
  if (one.value?.specversion !== undefined) {
    [answer] = await taken(() => returned(event, one.value));
    one = { value: "" };
  }
  answer.datacontenttype ??= typeof one.value === "string" ? "text/plain; charset=utf-8" : "application/octet-stream";
  answer.protocol = encode({ type: "http", ...mapOf(answer, "protocol"), streaming: true });
  write(answer);
  try {
    for (; !one.done; one = await next()) write(await taken(() => piece(one.value)));
  } catch (error) {
    write({ error: JSON.parse(failed(event, error).error), ...read(body) });
    return;
  }
  write({ last: true, ...read(body) });
}

// piece makes a part of an answer of a piece of its data.
function piece(one) {
  if (typeof one === "string") return { data: one };
  if (one instanceof Uint8Array) return { data_base64: Buffer.from(one).toString("base64") };
  throw new Fault("InvalidAnswer", `the function streamed a value of type ${typeof one}; right would be strings or bytes, and first of all an event`);
}

// isStream reports whether a value is made piece by piece: a generator, a stream, or anything else to await in a loop.
function isStream(value) {
  return typeof value?.[Symbol.asyncIterator] === "function" || Object.prototype.toString.call(value) === "[object Generator]";
}

function iterate(value) {
  return (value[Symbol.asyncIterator] ?? value[Symbol.iterator]).call(value);
}

const calls = new AsyncLocalStorage(); // whose call made what runs now
let current; // the call that is answered

// caught waits for the answer to a call, or for an error of it that nobody caught.
function caught(make, call) {
  current = call;
  return new Promise((resolve, reject) => {
    fail = reject;
    calls.run(call, make).then(resolve, reject);
  }).finally(() => {
    fail = report;
  });
}

// Also for rejections that nobody handles. What an earlier call left behind is not told to who calls now.
process.on("uncaughtException", (error) => ((calls.getStore() ?? current) === current ? fail : report)(error));

const chunks = events[Symbol.asyncIterator]();
let chunk = Buffer.alloc(0);
let from = 0;

// nextLine returns the next line of standard input, or undefined behind the last one.
async function nextLine() {
  const begun = [];
  for (;;) {
    const end = chunk.indexOf(10, from);
    if (end >= 0) {
      const line = begun.length === 0 ? chunk.toString("utf8", from, end) : Buffer.concat([...begun, chunk.subarray(from, end)]).toString();
      from = end + 1;
      return line;
    }
    if (from < chunk.length) begun.push(chunk.subarray(from));
    from = 0;
    const { value, done } = await chunks.next();
    chunk = done ? Buffer.alloc(0) : value;
    if (done) return begun.length === 0 ? undefined : Buffer.concat(begun).toString();
  }
}

async function serve() {
  await attempt();
  for (let line; (line = await nextLine()) !== undefined; ) {
    if (line.trim() !== "") await answer(line);
  }
}

serve().then(
  () => process.exit(), // whatever the function left open
  (error) => {
    report(error);
    process.exit(1);
  },
);
