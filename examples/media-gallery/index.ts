import { fromBase64, toBase64 } from './base64.ts';

type Item = { mediaId: string; name: string };
/** A tool's result may have 256 KiB, and base64 turns three bytes into four characters. */
const SHOWN_BYTES = 180_000;
/** How many files are listed at once: the names of all may have more than 256 KiB. */
const LISTED = 100;

const remember = ({ mediaId, name }: Item) => host.storage.set(`items/${mediaId}`, name);

middleware.inboundMessage = async ({ message }) => {
  for (const { mediaId, name } of message.attachments) {
    // An attachment is a media file of the account, or an external URL.
    if (mediaId) await remember({ mediaId, name });
  }
};

tools.keep = {
  description: 'Stores a file, given as base64, and returns its id.',
  parameters: {
    type: 'object',
    properties: {
      name: { type: 'string', minLength: 1, maxLength: 200 },
      base64: { type: 'string', minLength: 1, maxLength: 1_000_000 },
    },
    required: ['name', 'base64'],
    additionalProperties: false,
  },
  async handler({ name, base64 }: { name: string; base64: string }) {
    const { id, mediaType, sizeBytes } = await host.media.put(fromBase64(base64), name);
    await remember({ mediaId: id, name });
    return { content: [{ type: 'json', json: { id, mediaType, sizeBytes } }] };
  },
};

tools.list = {
  description: `Lists files that were kept or sent: ids and names, ${LISTED} at once.`,
  parameters: {
    type: 'object',
    properties: {
      after: { type: 'string', maxLength: 200, description: 'The last id of a list, to get the files that follow it' },
    },
    additionalProperties: false,
  },
  async handler({ after = '' }: { after?: string }) {
    const keys = await host.storage.list('items/');
    const listed = keys
      .filter((key) => key > `items/${after}`)
      .sort()
      .slice(0, LISTED);
    const items: Bulkhead.Json[] = [];
    for (const key of listed) items.push({ id: key.slice('items/'.length), name: await host.storage.get(key) });
    return { content: [{ type: 'json', json: items }] };
  },
};

tools.show = {
  description: 'Returns a file of the list.',
  parameters: {
    type: 'object',
    properties: { id: { type: 'string', minLength: 1, maxLength: 200 } },
    required: ['id'],
    additionalProperties: false,
  },
  async handler({ id }: { id: string }) {
    const { content, mediaType } = await host.media.get(id);
    if (content.length > SHOWN_BYTES)
      throw new Error(`It is too large to show: ${content.length} bytes of ${mediaType}.`);
    if (mediaType.startsWith('image/')) {
      return { content: [{ type: 'image', data: toBase64(content), mimeType: mediaType }] };
    }
    if (mediaType === 'text/plain') return new TextDecoder().decode(content);
    return `${content.length} bytes of ${mediaType}`;
  },
};
