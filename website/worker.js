// Browsers start no workers from files: here the search's worker lives in a hidden frame instead.
if (location.protocol === "file:") window.Worker = class extends EventTarget {
  constructor(url) {
    super();
    this.waiting = [];
    const frame = document.createElement("iframe");
    frame.hidden = true;
    document.body.append(frame);
    this.inside = frame.contentWindow;
    this.inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }));
    this.inside.importScripts = () => {};
    const script = frame.contentDocument.createElement("script");
    script.src = new URL(url, location.href);
    script.onload = () => { const all = this.waiting; this.waiting = null; all.forEach(data => this.postMessage(data)); };
    frame.contentDocument.body.append(script);
  }
  postMessage(data) {
    if (this.waiting) this.waiting.push(data);
    else this.inside.dispatchEvent(new MessageEvent("message", { data }));
  }
  terminate() { }
};
