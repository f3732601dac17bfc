// All that is asked of the server. Errors are sentences for people.

async function call(path, options = {}) {
  let answer;
  try {
    answer = await fetch(`api/${path}`, options);
  } catch {
    throw new Error("The studio does not answer. Is `mast studio` still running in its terminal?");
  }
  const body = answer.status === 204 ? null : await answer.json().catch(() => null);
  if (!answer.ok) {
    const error = new Error(body?.error ?? `The studio answered ${answer.status} without a word.`);
    error.status = answer.status;
    throw error;
  }
  return body;
}

const send = (path, content) =>
  call(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(content) });

export const status = () => call("status");
export const examples = () => call("examples");
export const methods = () => call("methods");
export const parameters = () => call("parameters");
export const upload = (blob) =>
  call("images", { method: "POST", headers: { "Content-Type": blob.type || "application/octet-stream" }, body: blob });
export const segmentClick = (photo, points) => send("segment/click", { photo, points });
export const segmentAuto = (photo, n) => send("segment/auto", { photo, n });
export const submit = (request) => send("jobs", request);
export const job = (id) => call(`jobs/${id}`);
export const jobs = (limit = 50) => call(`jobs?limit=${limit}`);
export const cancel = (id) => send(`jobs/${id}/cancel`, {});
export const remove = (id) => call(`jobs/${id}`, { method: "DELETE" });

const OVER = new Set(["done", "failed", "cancelled"]);
export const isOver = (job) => OVER.has(job.state);

// Follows a job to its end, across lost connections and a server that was started again.
// told: { job(job), preview(url), lost(), gone(error) }. Returns a function that stops following.
export function follow(id, told) {
  let source = null;
  let timer = 0;
  let stopped = false;
  const stop = () => {
    stopped = true;
    clearTimeout(timer);
    source?.close();
  };
  const seen = (job) => {
    if (stopped) return;
    if (isOver(job)) stop();
    told.job(job);
  };
  const listen = () => {
    source = new EventSource(`api/jobs/${id}/events`);
    source.addEventListener("progress", (event) => seen(JSON.parse(event.data)));
    source.addEventListener("state", (event) => seen(JSON.parse(event.data)));
    source.addEventListener("preview", (event) => !stopped && told.preview(JSON.parse(event.data).url));
    source.onerror = () => {
      source.close();
      if (!stopped) ask(500);
    };
  };
  const ask = (wait) => {
    timer = setTimeout(async () => {
      try {
        const found = await job(id);
        seen(found);
        if (!stopped) listen();
      } catch (error) {
        if (error.status === 404 || error.status === 401) {
          stop();
          told.gone(error);
        } else {
          told.lost();
          ask(Math.min(4000, wait * 1.5));
        }
      }
    }, wait);
  };
  listen();
  return stop;
}
