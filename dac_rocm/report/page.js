
"use strict";
// Everything here is comfort: without it, players, pictures and tables stay as they are.
(() => {
const every = (root, selector) => [...root.querySelectorAll(selector)];
const clamp = (value, low, high) => Math.min(high, Math.max(low, value));
document.documentElement.classList.add("ready");

// Let `to` go on where `from` is.
function swap(from, to) {
  if (from === to) return;
  const playing = !from.paused;
  from.pause();
  to.currentTime = from.currentTime;
  if (playing) to.play();
}

function press(buttons, chosen) {
  buttons.forEach((button, i) => button.setAttribute("aria-pressed", String(i === chosen)));
}

// Round places on an axis of time, as the page has them without a script.
function ticks(from, to) {
  const raw = (to - from) / 6, power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 5, 10].find((nice) => power * nice >= raw * 0.999);
  const found = [];
  for (let i = Math.ceil(from / step - 1e-9); i * step <= to + 1e-9; i++) found.push(i * step);
  return found.map((t) => Number(t.toFixed(6)));
}

class Clip {
  constructor(section) {
    this.section = section;
    this.seconds = Number(section.dataset.seconds);
    this.players = every(section, ".versions audio");
    this.picks = every(section, ".pick");
    this.loop = section.querySelector(".loop");
    this.active = this.players[0];
    this.picks.forEach((button, i) => button.addEventListener("click", () => this.choose(i)));
    this.players.forEach((player) => this.watch(player));
    for (const button of every(section, ".tools button"))
      button.addEventListener("click", () => this.zoom(button.dataset.do));
    for (const lens of every(section, ".lens")) new Pointer(this, lens);
    this.blind = new Blind(this);
    this.show(0, 1);
  }

  // A player that was started by its own button takes over from the one that played.
  watch(player) {
    player.addEventListener("play", () => {
      for (const other of clips.flatMap((clip) => clip.all()))
        if (other !== player && !other.paused) {
          if (this.all().includes(other)) player.currentTime = other.currentTime;
          other.pause();
        }
      current = this;
      this.activate(player);
      requestAnimationFrame(() => this.follow());
    });
    player.addEventListener("seeked", () => this.mark());
  }

  all() { return [...this.players, ...this.blind.players]; }

  activate(player) {
    this.active = player;
    press(this.picks, this.players.indexOf(player));
    press(this.blind.buttons, this.blind.players.indexOf(player));
  }

  choose(index) {
    current = this;
    if (this.blind.running || !this.players[index]) return;
    swap(this.active, this.players[index]);
    this.activate(this.players[index]);
  }

  toggle() {
    if (this.active.paused) this.active.play(); else this.active.pause();
  }

  follow() {
    if (this.active.paused) return this.mark();
    const at = this.active.currentTime / this.seconds, [from, to] = this.view;
    if (this.loop.checked && to - from < 1 && (at >= to || at < from - 0.01))
      this.active.currentTime = from * this.seconds;
    else if (at > to || at < from) this.show(at, at + to - from);
    this.mark();
    requestAnimationFrame(() => this.follow());
  }

  mark() { this.section.style.setProperty("--at", this.active.currentTime / this.seconds); }

  // Show the time between two fractions of the whole, at least 20 ms and a 64th of it.
  show(from, to) {
    const least = Math.min(1, Math.max(1 / 64, 0.02 / this.seconds));
    const width = clamp(to - from, least, 1);
    from = clamp((from + to - width) / 2, 0, 1 - width);
    this.view = [from, from + width];
    this.section.style.setProperty("--zoom", 1 / width);
    this.section.style.setProperty("--from", from);
    this.label(from * this.seconds, (from + width) * this.seconds);
  }

  label(from, to) {
    this.section.querySelector(".shown").textContent = `${from.toFixed(2)} s to ${to.toFixed(2)} s`;
    for (const axis of every(this.section, ".seconds"))
      axis.replaceChildren(...ticks(from, to).map((t) => {
        const span = document.createElement("span");
        span.textContent = String(t);
        span.style.left = `${100 * (t - from) / (to - from)}%`;
        return span;
      }));
  }

  zoom(what) {
    current = this;
    const [from, to] = this.view, width = to - from, at = this.active.currentTime / this.seconds;
    const middle = at > from && at < to ? at : (from + to) / 2;
    if (what === "in") this.show(middle - width / 4, middle + width / 4);
    if (what === "out") this.show(middle - width, middle + width);
    if (what === "earlier") this.show(from - width / 2, to - width / 2);
    if (what === "later") this.show(from + width / 2, to + width / 2);
    if (what === "whole") this.show(0, 1);
  }
}

// On a picture: a click goes to a place, a drag zooms, a double click shows the whole.
class Pointer {
  constructor(clip, lens) {
    Object.assign(this, { clip, lens, start: null });
    lens.addEventListener("pointerdown", (event) => this.down(event));
    lens.addEventListener("pointermove", (event) => this.move(event));
    lens.addEventListener("pointerup", (event) => this.up(event));
    lens.addEventListener("pointercancel", () => this.end());
    lens.addEventListener("dragstart", (event) => event.preventDefault());
    lens.addEventListener("dblclick", () => clip.zoom("whole"));
  }

  place(event) {
    const box = this.lens.getBoundingClientRect();
    return clamp((event.clientX - box.left) / box.width, 0, 1);
  }

  down(event) {
    if (event.button !== 0) return;
    this.start = this.place(event);
    this.lens.setPointerCapture(event.pointerId);
    this.band = document.createElement("i");
    this.band.className = "band";
    this.lens.append(this.band);
  }

  move(event) {
    if (this.start === null) return;
    const at = this.place(event);
    this.band.style.left = `${100 * Math.min(at, this.start)}%`;
    this.band.style.width = `${100 * Math.abs(at - this.start)}%`;
  }

  up(event) {
    if (this.start === null) return;
    const [from, to] = this.clip.view, width = to - from;
    const places = [this.start, this.place(event)].map((p) => from + p * width).sort((a, b) => a - b);
    const far = (places[1] - places[0]) / width * this.lens.clientWidth > 8;
    this.end();
    current = this.clip;
    if (far) this.clip.show(...places);
    else {
      this.clip.active.currentTime = places[0] * this.clip.seconds;
      this.clip.mark();
    }
  }

  end() {
    this.start = null;
    this.band?.remove();
  }
}

// Each of A, B and X has a player of its own, so that no switch sounds unlike another.
class Blind {
  constructor(clip) {
    const find = (selector) => clip.section.querySelector(`.blind ${selector}`);
    Object.assign(this, { clip, players: [], running: false });
    this.buttons = every(clip.section, ".blind .play");
    this.selects = [find(".a"), find(".b")];
    [this.setup, this.trial, this.score] = [find(".setup"), find(".trial"), find(".score")];
    find(".start").addEventListener("click", () => this.start());
    find(".stop").addEventListener("click", () => this.stop());
    this.buttons.forEach((button, i) => button.addEventListener("click", () => this.listen(i)));
    for (const button of every(clip.section, ".answer"))
      button.addEventListener("click", () => this.answer(Number(button.dataset.is)));
  }

  start() {
    const chosen = this.selects.map((select) => Number(select.value));
    if (chosen[0] === chosen[1]) {
      this.score.textContent = "A and B are the same version: choose two.";
      return;
    }
    current = this.clip;
    this.sources = chosen.map((i) => this.clip.players[i].src);
    this.players = [0, 1, 2].map(() => new Audio());
    this.players.forEach((player) => this.clip.watch(player));
    this.sources.forEach((source, i) => { this.players[i].src = source; });
    [this.right, this.total, this.running] = [0, 0, true];
    this.open(true);
    this.clip.active.pause();
    this.next();
    this.tell("Listen to A, B and X as often as you like, then answer.");
  }

  open(running) {
    this.setup.hidden = running;
    this.trial.hidden = !running;
    this.clip.section.querySelector(".versions").hidden = running;
    (running ? this.buttons[2] : this.clip.section.querySelector(".blind .start")).focus();
  }

  next() {
    this.x = crypto.getRandomValues(new Uint8Array(1))[0] & 1;
    this.players.forEach((player) => player.pause());
    const at = this.clip.active.currentTime;
    this.players[2].src = this.sources[this.x];
    this.players.forEach((player) => { player.currentTime = at; });
    this.clip.activate(this.players[2]);
  }

  listen(index) {
    const to = this.players[index], from = this.clip.active;
    if (from === to) this.clip.toggle();
    else if (from.paused) { to.currentTime = from.currentTime; to.play(); }
    else swap(from, to);
    this.clip.activate(to);
  }

  answer(choice) {
    this.total += 1;
    this.right += choice === this.x;
    this.next();
    this.tell("");
  }

  tell(hint) {
    const chance = 100 * guessing(this.right, this.total);
    const result = `${this.right} of ${this.total} right; guessing does at least so well in ${chance.toPrecision(3)} % of tests.`;
    this.score.textContent = hint || result;
  }

  stop() {
    this.players.forEach((player) => player.pause());
    [this.players, this.running] = [[], false];
    this.clip.activate(this.clip.players[0]);
    this.open(false);
  }
}

// Chance of at least `right` of `total` fair coins.
function guessing(right, total) {
  let ways = 1, sum = 0;
  for (let k = 0; k <= total; k++) {
    if (k >= right) sum += ways;
    ways = ways * (total - k) / (k + 1);
  }
  return sum / 2 ** total;
}

const clips = [];
let current;
for (const section of every(document, ".clip")) clips.push(new Clip(section));
current = clips[0];

const zooms = { "+": "in", "=": "in", "-": "out", "0": "whole" };
document.addEventListener("keydown", (event) => {
  const busy = event.target.closest("input, select, textarea, summary");
  if (event.ctrlKey || event.altKey || event.metaKey || busy) return;
  if (!document.getElementById("keys").checked) return;
  const key = event.key.toLowerCase(), blind = "abx".indexOf(key);
  if (key === " " && !event.target.closest("button, a, audio")) current.toggle();
  else if (/^[1-9]$/.test(key)) current.choose(Number(key) - 1);
  else if (key in zooms) current.zoom(zooms[key]);
  else if (blind >= 0 && current.blind.running) current.blind.listen(blind);
  else return;
  event.preventDefault();
});
})();
