// Requests, and answers that are sent until the server has confirmed them.

const WAITS = [500, 1000, 2000, 4000, 8000];

export async function ask(path, body) {
  const options = body === undefined ? {} : { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
  const response = await fetch(path, options);
  const found = await response.json().catch(() => ({ error: "the server gave no answer that can be read" }));
  if (!response.ok) throw Object.assign(new Error(found.error || response.statusText), { status: response.status });
  return found;
}

// One answer after the other, in the order they were given. A newer answer to a question that still waits takes the
// place of the older one. `onChange(waiting, problem)` is told of every step.
export class Sender {
  constructor(onChange) {
    this.waiting = new Map();
    this.onChange = onChange;
    this.busy = false;
    addEventListener("online", () => this.wake?.());
    addEventListener("beforeunload", (event) => {
      if (this.waiting.size) event.preventDefault();
    });
  }

  send(answer, confirmed) {
    this.waiting.set(`${answer.picture} ${answer.criterion}`, { answer, confirmed });
    this.onChange(this.waiting.size, null);
    if (!this.busy) this.run();
  }

  async run() {
    this.busy = true;
    let failed = 0;
    while (this.waiting.size) {
      const [key, entry] = this.waiting.entries().next().value;
      try {
        await ask("/api/answers", entry.answer);
        failed = 0;
        if (this.waiting.get(key) === entry) this.waiting.delete(key);
        entry.confirmed(entry.answer);
        this.onChange(this.waiting.size, null);
      } catch (error) {
        if (error.status && error.status < 500 && error.status !== 429) { // would be refused again
          this.waiting.delete(key);
          this.onChange(this.waiting.size, error.message);
          continue;
        }
        this.onChange(this.waiting.size, "not saved yet; trying again");
        await this.pause(WAITS[Math.min(failed++, WAITS.length - 1)]);
      }
    }
    this.busy = false;
  }

  pause(time) {
    return new Promise((resolve) => {
      this.wake = resolve;
      setTimeout(resolve, time);
    });
  }
}
