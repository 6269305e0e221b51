/** The commands that start, stop and restart the server on this machine, and where its program is looked for. */

import * as vscode from "vscode";
import { failureOf } from "../core/failure.js";
import type { LocalServer } from "../core/localServer.js";
import { OptionError, type Options } from "../core/options.js";
import { findProgram } from "../core/programs.js";
import type { Notices } from "./notices.js";
import { optionsFor } from "./settings.js";

/** The program of that name as a file. What lies in a workspace is only run where the workspace is trusted. */
export function programNamed(name: string): string | null {
  const trusted = vscode.workspace.isTrusted ? (vscode.workspace.workspaceFolders ?? []) : [];
  const folders = trusted.filter(({ uri }) => uri.scheme === "file").map(({ uri }) => uri.fsPath);
  return findProgram(name, { folders, path: process.env["PATH"] ?? "", platform: process.platform });
}

const NOT_OURS =
  "The editor has started no server. One in the background ends by `apply-service stop`, one in a terminal by Ctrl+C.";

export function bindServer(server: LocalServer, notices: Notices): vscode.Disposable {
  const withOptions = async (act: (options: Options) => Promise<void>): Promise<void> => {
    try {
      await act(optionsFor(undefined));
    } catch (error) {
      notices.error(error instanceof OptionError ? error.message : failureOf(error, false).words);
    }
  };
  const look = (): Promise<void> =>
    withOptions(async (options) => {
      await server.look(options);
    });
  const start = async (options: Options): Promise<void> => {
    if (await server.look(options)) return notices.info("A server answers already.");
    await server.start(options, new AbortController().signal);
    notices.info(`The server is ready at ${options.url}.`);
  };
  const stop = async (): Promise<void> => {
    if (await server.stop()) notices.info("The server has stopped.");
    else notices.info(NOT_OURS);
    await look();
  };
  const restart = async (options: Options): Promise<void> => {
    if (!(await server.stop())) return notices.info(NOT_OURS);
    await start(options);
  };
  void look();
  return vscode.Disposable.from(
    vscode.commands.registerCommand("applyService.startServer", () => withOptions(start)),
    vscode.commands.registerCommand("applyService.stopServer", stop),
    vscode.commands.registerCommand("applyService.restartServer", () => withOptions(restart)),
    vscode.workspace.onDidChangeConfiguration((event) => {
      if (event.affectsConfiguration("applyService")) void look();
    }),
  );
}
