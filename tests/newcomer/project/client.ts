import { EventEmitter } from "node:events";

export interface Message {
  id: string;
  channel: string;
  text: string;
  sentAt: Date;
}

export interface ClientOptions {
  url: string;
  token: string;
  timeoutMs?: number;
}

const DEFAULT_TIMEOUT_MS = 5_000;

export class ChatClient extends EventEmitter {
  private readonly url: string;
  private readonly token: string;
  private readonly timeoutMs: number;
  private cache = new Map<string, Message[]>();

  constructor(options: ClientOptions) {
    super();
    this.url = options.url.replace(/\/$/, "");
    this.token = options.token;
    this.timeoutMs = options.timeoutMs ?? DEFAULT_TIMEOUT_MS;
  }

  async history(channel: string, limit = 50): Promise<Message[]> {
    const cached = this.cache.get(channel);
    if (cached !== undefined) {
      return cached;
    }
    const messages = await this.request<Message[]>("GET", `/channels/${channel}/messages?limit=${limit}`);
    this.cache.set(channel, messages);
    return messages;
  }

  async send(channel: string, text: string): Promise<Message> {
    const message = await this.request<Message>("POST", `/channels/${channel}/messages`, { text });
    this.emit("sent", message);
    return message;
  }

  async leave(channel: string): Promise<void> {
    await this.request<void>("DELETE", `/channels/${channel}/members/me`);
    this.cache.delete(channel);
  }

  private async request<T>(method: string, path: string, body?: unknown): Promise<T> {
    const controller = new AbortController();
    const timer = setTimeout(() => controller.abort(), this.timeoutMs);
    try {
      const response = await fetch(this.url + path, {
        method,
        headers: { Authorization: `Bearer ${this.token}`, "Content-Type": "application/json" },
        body: body === undefined ? undefined : JSON.stringify(body),
        signal: controller.signal,
      });
      if (!response.ok) {
        throw new Error(`${method} ${path}: ${response.status}`);
      }
      return (await response.json()) as T;
    } finally {
      clearTimeout(timer);
    }
  }
}

export function formatMessage(message: Message): string {
  const time = message.sentAt.toISOString().slice(11, 16);
  return `[${time}] ${message.channel}: ${message.text}`;
}
