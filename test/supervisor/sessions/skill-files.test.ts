/** The files of skills, without a package. */
import { Readable } from 'node:stream';
import t from 'tap';
import type { SessionServices } from '../../../supervisor/sessions/session-services.ts';
import { readSkillFile, type Skill } from '../../../supervisor/sessions/skill-files.ts';

const SIZE_BYTES = 2 * 1024 * 1024;
const skill = { plugin: { versionId: 'v' }, text: { name: 'bake' } } as unknown as Skill;

const typeOf = async (firstChunk: Uint8Array): Promise<string> => {
  const services = {
    pool: { query: async () => ({ rows: [{ sha256: 's', sizeBytes: SIZE_BYTES }] }) },
    blobs: { stream: () => Readable.from([firstChunk, Buffer.alloc(1)]) },
  } as unknown as SessionServices;
  return (await readSkillFile(services, skill, 'recipes.txt')).mediaType;
};

t.test('a large text is one, wherever its first chunk ends', async (t) => {
  const text = Buffer.from('ab€😀'.repeat(1_000));
  for (let cut = 0; cut < 9; cut += 1) t.equal(await typeOf(text.subarray(0, text.length - cut)), 'text/plain');
  t.equal(await typeOf(Buffer.from([0xff, 0xfe, 0x80, 0x80, 0x80, 0x80, 0x80])), 'application/octet-stream');
  t.equal(await typeOf(Buffer.alloc(8, 0x80)), 'application/octet-stream');
});
