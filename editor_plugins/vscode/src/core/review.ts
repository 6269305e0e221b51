/** A proposal while its document lives on: decisions, undo and redo are followed, any other change makes it stale. */

import type { EditRequest } from "apply-service-client";
import type { Offer } from "./carryOver.js";
import type { Plan, Proposal } from "./proposal.js";
import type { Readings } from "./readings.js";

/** What a change of the document meant. `none`: it holds what it should. */
export type Change = "none" | "stale" | "moved";

interface Step {
  readonly accepted: readonly number[];
  readonly text: string;
}

export class Review implements Offer {
  readonly asked: EditRequest;
  /** Where the edit was in doubt: its readings, of which the proposal is one. */
  readonly readings: Readings | null;
  #proposal: Proposal;
  /** What the document has held by decisions of the review, oldest first. */
  #steps: readonly Step[];
  #isStale = false;

  constructor({ asked, proposal, readings }: Offer) {
    this.asked = asked;
    this.readings = readings;
    this.#proposal = proposal;
    this.#steps = [stepOf(proposal)];
  }

  get proposal(): Proposal {
    return this.#proposal;
  }

  /** Whether the document holds something that no decision led to. */
  get isStale(): boolean {
    return this.#isStale;
  }

  /** Whether nothing is left to decide. A reading that changes nothing waits for another to be chosen. */
  get isOver(): boolean {
    const { hunks, pending } = this.#proposal;
    return pending.length === 0 && (hunks.length > 0 || this.readings === null);
  }

  /** Whether another reading can be shown: each begins with the document as it was. */
  get canStep(): boolean {
    return this.readings !== null && !this.#isStale && this.#proposal.accepted.length === 0;
  }

  /** The plan was carried out. */
  accept(plan: Plan): void {
    this.#proposal = plan.proposal;
    this.#steps = [...this.#steps, stepOf(plan.proposal)];
    this.#isStale = false;
  }

  reject(indices: readonly number[]): void {
    const pending = indices.filter((i) => this.#proposal.states[i] === "pending");
    this.#proposal = this.#proposal.with(pending, "rejected");
  }

  /** The document holds this text now: hunks that an undo took out are pending again, and accepted after a redo. */
  follow(text: string): Change {
    const step = this.#steps.findLast((candidate) => candidate.text === text);
    const wasStale = this.#isStale;
    this.#isStale = step === undefined;
    if (step === undefined) return wasStale ? "none" : "stale";
    const isSame = text === this.#proposal.text;
    if (!isSame) this.#proposal = this.#proposal.withAccepted(step.accepted);
    return isSame && !wasStale ? "none" : "moved";
  }
}

function stepOf(proposal: Proposal): Step {
  return { accepted: proposal.accepted, text: proposal.text };
}
