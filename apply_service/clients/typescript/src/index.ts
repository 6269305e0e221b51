export { ApplyClient } from "./client.js";
export type { CallOptions, ClientOptions, EditRequest } from "./client.js";
export { ApplyError } from "./errors.js";
export type { ApplyEvent, PassCount } from "./events.js";
export type * from "./types.js";
