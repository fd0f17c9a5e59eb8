/** Pictures and files of users' messages: between the parts of a framework and the media of a session. */
import { encodeBase64 } from '../session/base64.ts';
import type { Attachment, Session } from '../session/session.ts';
import { toStorable } from '../session/storable-text.ts';
import { hasCode } from '../session/transport.ts';

/** A picture or file in a message of a framework. */
export interface MessageFile {
  readonly name: string;
  readonly mediaType: string;
  /** Its bytes in base64. */
  readonly data?: string;
  readonly url?: string;
  /** Whether only the model's provider has the bytes. Plugins then judge the name and the type alone. */
  readonly isAtProvider?: boolean;
  /** Its place in the content of the message; left out: a plugin put it there. */
  readonly index?: number;
}

/** The largest file that a session keeps. Plugins judge a larger one by name and type. Bytes. */
const MEDIA_MAX_BYTES = 2 * 1_024 * 1_024;
const URL_MAX_CHARS = 4_096;
const NAME_MAX_CHARS = 255;
/** Files of plugins that are kept for the next requests, which have the same messages. */
const READ_MAX = 20;
const BASE64_CHARS = 4;
const BASE64_BYTES = 3;

export class MessageFiles {
  readonly #session: Session;
  /** Bytes in base64, by id. */
  readonly #read = new Map<string, string>();

  constructor(session: Session) {
    this.#session = session;
  }

  /**
   * Keeps files with the session. Equal files have the same id, so that this can be repeated.
   *
   * @throws Error for a part of a message of which plugins could judge nothing, or not the whole name
   */
  attach(files: readonly MessageFile[], signal?: AbortSignal): Promise<Attachment[]> {
    return Promise.all(
      files.map(async ({ name: given, mediaType, data, url, isAtProvider = false }) => {
        // The model gets all of a longer name.
        if (given.length > NAME_MAX_CHARS || mediaType.length > NAME_MAX_CHARS)
          throw new Error(
            `The name or type of a file in a user's message has more than ${NAME_MAX_CHARS} characters, which plugins cannot judge. ` +
              'Shorten it.',
          );
        const name = toStorable(given);
        const attachment = { name, mediaType: toStorable(mediaType) };
        if (data !== undefined && countBytes(data) <= MEDIA_MAX_BYTES) {
          const kept = await this.#session.putMedia({ data, name }, { signal });
          return { ...attachment, mediaType: kept.mediaType, mediaId: kept.id };
        }
        if (data !== undefined || isAtProvider) return attachment;
        if (url !== undefined && url.length <= URL_MAX_CHARS && URL.canParse(url)) return { ...attachment, url };
        throw new Error(
          `The part “${name}” (${mediaType}) of a user's message has no text, data or address that plugins can judge. ` +
            'Send it in another form, such as text or base64, or leave it out.',
        );
      }),
    );
  }

  /**
   * Returns the files after the plugins' changes. Null: unchanged.
   *
   * @param sent the files as they were sent to be judged
   */
  async restore(
    judged: readonly Attachment[],
    sent: readonly Attachment[],
    files: readonly MessageFile[],
    signal?: AbortSignal,
  ): Promise<MessageFile[] | null> {
    const left = new Set(files.keys());
    const restored: MessageFile[] = [];
    for (const attachment of judged) {
      const at = [...left].find((index) => isSame(sent[index], attachment));
      const file = at === undefined ? await this.#open(attachment, signal) : files[at];
      if (at !== undefined) left.delete(at);
      if (file) restored.push(file);
    }
    const isUnchanged = restored.length === files.length && restored.every((file, at) => file === files[at]);
    return isUnchanged ? null : restored;
  }

  async #open({ name, mediaType, mediaId, url }: Attachment, signal?: AbortSignal): Promise<MessageFile | null> {
    if (mediaId === undefined) return url === undefined ? null : { name, mediaType, url };
    const known = this.#read.get(mediaId);
    if (known !== undefined) return { name, mediaType, data: known };
    try {
      const data = encodeBase64(await this.#session.readMedia(mediaId, { signal }));
      if (this.#read.size >= READ_MAX) this.#read.clear();
      this.#read.set(mediaId, data);
      return { name, mediaType, data };
    } catch (error) {
      // The plugin that put it there is gone, and its files with it.
      if (hasCode(error, 'not_found')) return null;
      throw error;
    }
  }
}

/** How many bytes a base64 text encodes, with or without padding. */
function countBytes(data: string): number {
  const padding = data.endsWith('==') ? 2 : Number(data.endsWith('='));
  return Math.floor(((data.length - padding) / BASE64_CHARS) * BASE64_BYTES);
}

/** The service replaces the type by that of the bytes. */
const isSame = (one: Attachment | undefined, other: Attachment): boolean =>
  one?.name === other.name && one.mediaId === other.mediaId && one.url === other.url;

export const areSame = (some: readonly Attachment[], others: readonly Attachment[]): boolean =>
  some.length === others.length && others.every((other, at) => isSame(some[at], other));

/** The text by which a message with files is recognized. */
export const describeFiles = (files: readonly MessageFile[]): string =>
  files
    .map(({ name, mediaType, data, url }) => `\0${JSON.stringify([name, mediaType, url ?? ''])}${data ?? ''}`)
    .join('');

/** The file at an address, or the bytes in a `data:` address. @throws URIError */
export function readAddress(address: string): Pick<MessageFile, 'data' | 'url'> & { readonly mediaType?: string } {
  const inline = /^data:([^;,]*)((?:;[^,]*)?),(.*)$/is.exec(cleanHead(address));
  if (!inline) return { url: address };
  const [, mediaType = '', parameters = '', content = ''] = inline;
  const data = /;base64$/i.test(parameters) ? content : encodeText(decodeURIComponent(content));
  return mediaType === '' ? { data } : { data, mediaType };
}

/** Removes from the head of a `data:` address what its readers ignore: space before it, and tabs and line breaks in it. */
function cleanHead(address: string): string {
  const comma = address.indexOf(',');
  const head = address.slice(0, comma + 1).replaceAll(/^[\0-\x20]+|[\t\n\r]/g, '');
  return /^data:/i.test(head) ? head + address.slice(comma + 1) : address;
}

/** The data of a file with this text. */
export const encodeText = (text: string): string => encodeBase64(new TextEncoder().encode(text));

/** The address of a file, which may hold its bytes. */
export const formatAddress = ({ mediaType, data, url }: MessageFile): string =>
  data === undefined ? (url ?? '') : `data:${mediaType};base64,${data}`;
