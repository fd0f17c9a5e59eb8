/**
 * Handles of secrets. If the frontmatter declares a `use` of a secret, the plugin gets a handle, not the value. The host puts the value in
 * where it is used, so that it never enters the child.
 */
import { createHmac, randomBytes } from 'node:crypto';
import type { SecretMask } from '../records/secret-mask.ts';
import { HostError } from './host-call.ts';
import type { Headers } from './http/headers.ts';

const PREFIX = 'secret:';
const HTTP_USE = 'http:';
/** The use of a secret in requests to a host. */
export const httpUse = (hostname: string): string => `${HTTP_USE}${hostname}`;
export const WEBHOOKS_USE = 'webhooks';
/** A text in the form of a handle, whose proof is not checked yet. The look-ahead consumes nothing, so it also finds forms that overlap. */
const HANDLE_FORM = /secret:(?=([\w-]{1,64}):([0-9a-f]{32}))/g;

/** The secrets that the running version of an installation declares. */
export interface SecretSource {
  readonly installationId: string;
  readonly names: readonly string[];
  /** Null: the user has not set it, or the version does not declare it. */
  read(name: string): Promise<Secret | null>;
}

export interface MaskedSource extends SecretSource {
  /** Masks the values of which the plugin has handles and which may be sent to this host, as far as they are read by now. */
  openMask(hostname: string): SecretMask;
}

interface Secret {
  readonly value: string;
  /** How the host may use it for the plugin. Null: the plugin may read it. */
  readonly uses: readonly string[] | null;
}

/**
 * Makes and resolves handles. A handle is not secret, but must not be guessable: a plugin may forward untrusted text in a header,
 * and a guessed handle in it would be replaced by the value.
 */
export class SecretHandles {
  readonly #key = randomBytes(32);
  /** Handles that were compared with a text. A source exists for one call, and its redirects use the same one. */
  readonly #made = new WeakMap<SecretSource, Map<string, string>>();

  /** Returns a secret's handle, which stays the same while this process runs, so that a plugin may keep it. */
  make(installationId: string, name: string): string {
    const proof = createHmac('sha256', this.#key)
      .update(JSON.stringify([installationId, name]))
      .digest('hex');
    return `${PREFIX}${name}:${proof.slice(0, 32)}`;
  }

  /** Returns the names of the secrets whose handles the text contains. */
  findNames(text: string, source: SecretSource): string[] {
    if (!text.includes(PREFIX)) return [];
    const found = new Set<string>();
    for (const [, name = '', proof = ''] of text.matchAll(HANDLE_FORM)) {
      if (found.has(name) || !source.names.includes(name)) continue;
      if (this.#makeOnce(source, name) === `${PREFIX}${name}:${proof}`) found.add(name);
    }
    return [...found];
  }

  /** @throws HostError when the text is not a handle, or the secret has no value or another use */
  async open(handle: string, use: string, source: SecretSource): Promise<string> {
    const [name] = this.findNames(handle, source);
    if (name === undefined || handle !== this.#makeOnce(source, name))
      throw new HostError('this is not a valid handle of a secret; get the handle again with host.secrets.get(name)');
    return readFor(use, name, source);
  }

  /** @throws HostError if the text contains a handle, because the host fills in headers only */
  refuseHandle(place: string, text: string, source: SecretSource): void {
    const [name] = this.findNames(text, source);
    if (name === undefined) return;
    throw new HostError(`the ${place} holds the handle of the secret ${name}, which works in headers only`);
  }

  /**
   * Replaces handles in headers by the values. Returns the same headers where there is none.
   *
   * @param isSafe whether the connection is encrypted, or its target is one that the operator trusts
   * @throws HostError when a secret may not be sent to this host
   */
  async fillHeaders(
    headers: Headers,
    { hostname, isSafe }: { readonly hostname: string; readonly isSafe: boolean },
    source: SecretSource,
  ): Promise<Headers> {
    const filled: Record<string, string> = { ...headers };
    const values = new Map<string, string>();
    for (const [header, given] of Object.entries(headers)) {
      let text = given;
      for (const name of this.findNames(given, source)) {
        const value = values.get(name) ?? (await readFor(httpUse(hostname), name, source));
        if (!isSafe) throw new HostError(`the secret ${name} is sent over https: only`);
        values.set(name, value);
        text = text.replaceAll(this.#makeOnce(source, name), () => value);
      }
      filled[header] = text;
    }
    return values.size > 0 ? filled : headers;
  }

  #makeOnce(source: SecretSource, name: string): string {
    const made = this.#made.get(source) ?? new Map<string, string>();
    this.#made.set(source, made);
    const handle = made.get(name) ?? this.make(source.installationId, name);
    made.set(name, handle);
    return handle;
  }
}

/** @throws HostError when the secret has no value or another use */
async function readFor(use: string, name: string, source: SecretSource): Promise<string> {
  const secret = await source.read(name);
  if (secret === null) throw new HostError(`the secret ${name} is not set`);
  if (secret.uses === null || secret.uses.includes(use)) return secret.value;
  throw new HostError(
    `the secret ${name} is declared for ${secret.uses.join(', ')}, not for ${use}; add it to the secret’s “use” in readme.md`,
  );
}
