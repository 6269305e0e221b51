/** A signal that fires when nothing has happened for too long, or when the caller's own signal fires. */

export class Silence {
  readonly #controller = new AbortController();
  readonly #caller: AbortSignal | undefined;
  readonly #onAbort = (): void => this.#controller.abort(this.#caller?.reason);
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isLate = false;

  constructor(
    readonly limitMs: number,
    caller: AbortSignal | undefined,
  ) {
    this.#caller = caller;
    if (caller?.aborted) this.#onAbort();
    caller?.addEventListener("abort", this.#onAbort);
    this.broken();
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Whether the signal fired because the time ran out. */
  get isLate(): boolean {
    return this.#isLate;
  }

  /** Note that something happened, and start waiting anew. */
  broken(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#isLate = true;
      this.#controller.abort();
    }, this.limitMs);
  }

  end(): void {
    clearTimeout(this.#timer);
    this.#caller?.removeEventListener("abort", this.#onAbort);
  }
}
