/** Buttons of messages, each of which runs a command. */

import * as vscode from "vscode";
import type { Remedy } from "./notices.js";

function remedy(label: string, command: string, ...given: unknown[]): Remedy {
  return { label, act: () => vscode.commands.executeCommand(command, ...given) };
}

export const SETTINGS = remedy("Open Settings", "workbench.action.openSettings", "applyService");
export const SHOW_VERDICTS = remedy("Show Verdicts", "applyService.showVerdicts");
export const NEXT_READING = remedy("Next Reading", "applyService.nextReading");
export const SET_KEY = remedy("Set API Key", "applyService.setApiKey");
export const APPLY_REPLY = remedy("Apply to All Its Files", "applyService.applyReply");
