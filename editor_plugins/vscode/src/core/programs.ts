/** Where the service's program is on this machine, and the server that it keeps for the user in the background. */

import { execFile } from "node:child_process";
import { accessSync, constants } from "node:fs";
import { readFile } from "node:fs/promises";
import { homedir } from "node:os";
import * as path from "node:path";
import { promisify } from "node:util";

const ENVIRONMENTS = [".venv", "venv", "env"];
const STATUS_MS = 10_000;

/** Where our programs run: never in a folder of the workspace, where Windows would look first for what they start. */
export function neutralFolder(): string {
  return homedir();
}

/** Where to look. */
export interface Places {
  /** Folders whose virtual environments may be run: none of a workspace that is not trusted. */
  readonly folders: readonly string[];
  /** As the environment's PATH. */
  readonly path: string;
  readonly platform: NodeJS.Platform;
}

function isProgram(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** A program by its name: a workspace's virtual environment goes before PATH. A path stays what it is, from the
 * home folder on. Null: none. */
export function findProgram(name: string, places: Places): string | null {
  if (/[\\/]/.test(name)) return name;
  const isWindows = places.platform === "win32";
  const bin = isWindows ? "Scripts" : "bin";
  const inFolders = places.folders.flatMap((folder) => ENVIRONMENTS.map((env) => path.join(folder, env, bin)));
  const onPath = places.path.split(isWindows ? ";" : ":").filter((folder) => path.isAbsolute(folder));
  const files = [...inFolders, ...onPath].map((folder) => path.join(folder, isWindows ? `${name}.exe` : name));
  return files.find(isProgram) ?? null;
}

/** A server that answers, and its key. */
export interface FoundServer {
  readonly url: string;
  readonly apiKey: string;
}

/** The user's server in the background, if it is ready (`apply-service start`). */
export async function findUserServer(program: string): Promise<FoundServer | null> {
  try {
    const { stdout } = await promisify(execFile)(program, ["status", "--json"], {
      cwd: neutralFolder(),
      timeout: STATUS_MS,
      windowsHide: true,
    });
    const said = JSON.parse(stdout) as { is_ready?: unknown; url?: unknown; key_file?: unknown };
    if (said.is_ready !== true || typeof said.key_file !== "string") return null;
    const { url, key } = JSON.parse(await readFile(said.key_file, "utf8")) as { url?: unknown; key?: unknown };
    return typeof url === "string" && url === said.url && typeof key === "string" ? { url, apiKey: key } : null;
  } catch {
    return null; // no server runs, or an older program
  }
}
