/** A version as an Agent Plugin, and a folder of Agent Skills as a package: both ways between the formats. */
import { mkdir, readdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import t, { type Test } from 'tap';
import { fromBufferPromise } from 'yauzl';
import { createSession } from '../../../db/sessions/sessions.ts';
import { CommandError } from '../../../sdk/cli/failure.ts';
import { readSkillFolder, writeSkillPackage } from '../../../sdk/cli/skill-import.ts';
import { temporaryFolder } from '../../runner/harness.ts';
import { startApiFixture } from '../api-fixture.ts';
import { upload, zipOf } from '../package/packages.ts';

const api = await startApiFixture(t);
const ann = await api.user('ann');
const SKILL = '---\nname: bread\ndescription: Bakes bread\n---\nKnead.\n';
const PICTURE = Buffer.from([137, 80, 78, 71, 0, 255]);
const { body: plugin } = await ann.post('/plugins', { slug: 'baker', displayName: 'Baker', description: 'Bakes' });
const packed = await zipOf({
  'readme.md': '---\nname: Baker\ndescription: Bakes\n---\n',
  'index.ts': '// Skills need no code.\n',
  'skills/bread/SKILL.md': SKILL,
  'skills/bread/assets/loaf.png': PICTURE,
  'assets/other.txt': 'stays here',
});
const url = `/api/plugins/${plugin.id}/versions/zip`;
const { body: version } = await ann.send({ method: 'POST', url, ...upload(packed, '1.2.0') });

/** The files of the archive that a token is answered. */
async function archive(token: string, query = ''): Promise<Record<string, Buffer>> {
  const path = `/api/plugins/${plugin.id}/versions/${version.id}/agent-plugin${query}`;
  const answer = await api.app.inject({ method: 'GET', url: path, headers: { authorization: `Bearer ${token}` } });
  if (answer.statusCode !== 200) throw new Error(`answered ${answer.statusCode}: ${answer.body}`);
  const zip = await fromBufferPromise(answer.rawPayload);
  const files: Record<string, Buffer> = {};
  for await (const entry of zip.eachEntry()) {
    const chunks: Buffer[] = [];
    for await (const chunk of await zip.openReadStreamPromise(entry)) chunks.push(chunk as Buffer);
    files[entry.fileName] = Buffer.concat(chunks);
  }
  return files;
}
const read = (file: Buffer | undefined) => JSON.parse(String(file));

t.test('a version is exported with its skills and the way to its tools', async (t) => {
  const files = await archive(ann.token);
  t.same(Object.keys(files).sort(), [
    'baker/mcp.json',
    'baker/plugin.json',
    'baker/skills/bread/SKILL.md',
    'baker/skills/bread/assets/loaf.png',
  ]);
  t.same(read(files['baker/plugin.json']), {
    $schema: 'https://agent-plugins.org/schemas/1.0.0/plugin.schema.json',
    name: 'baker',
    version: '1.2.0',
    description: 'Bakes',
    author: { name: 'ann' },
  });
  t.same(read(files['baker/mcp.json']), {
    $schema: 'https://agent-plugins.org/schemas/1.0.0/mcp.schema.json',
    mcpServers: { bulkhead: { type: 'stdio', command: 'bulkhead', args: ['mcp', '--url', 'http://localhost:4000'] } },
  });
  t.equal(String(files['baker/skills/bread/SKILL.md']), SKILL);
  t.same(files['baker/skills/bread/assets/loaf.png'], PICTURE);
  t.same(await archive(ann.token), files, 'the same version, the same bytes');
});

t.test('it is for the owner, and leads to no session of others', async (t) => {
  const bob = await api.user('bob');
  await t.rejects(archive(bob.token), { message: /answered 404/ });
  const { body: me } = await bob.get('/me');
  const theirs = await createSession(api.pool, { accountId: me.id, agentId: 'a', agentName: 'a', channelId: null });
  for (const id of [theirs.id, 'none', '%00']) {
    await t.rejects(archive(ann.token, `?sessionId=${id}`), { message: /answered 40[04]/ }, id);
  }
});

async function write(test: Test, files: Readonly<Record<string, string | Buffer>>): Promise<string> {
  const folder = join(await temporaryFolder(test), 'my-skills');
  for (const [path, content] of Object.entries(files)) {
    await mkdir(dirname(join(folder, path)), { recursive: true });
    await writeFile(join(folder, path), content);
  }
  return folder;
}

t.test('a folder of skills, one skill and an agent plugin become packages that are published', async (t) => {
  const manifest = JSON.stringify({ name: 'bakery', description: 'All\u202e about\nbread' });
  const shapes = [
    { files: { 'bread/SKILL.md': SKILL, 'bread/loaf.png': PICTURE, 'notes/x.md': 'x' }, name: 'my-skills', notes: 1 },
    { files: { 'plugin.json': manifest, 'mcp.json': '{}', 'skills/bread/SKILL.md': SKILL }, name: 'bakery', notes: 1 },
  ];
  for (const { files, name, notes } of shapes) {
    const found = await readSkillFolder(await write(t, files as Record<string, string | Buffer>));
    t.match(found, { name, skills: ['bread'] });
    t.equal(found.notes.length, notes);
    const target = join(await temporaryFolder(t), 'package');
    await writeSkillPackage(found, target);
    const paths = (await readdir(target, { recursive: true, withFileTypes: true })).filter((entry) => entry.isFile());
    const entries = paths.map((entry) => join(entry.parentPath, entry.name));
    const contents = await Promise.all(
      entries.map(async (path) => [path.slice(target.length + 1), await readFile(path)] as const),
    );
    const made = await ann.post('/plugins', { slug: name, displayName: name });
    const zip = upload(await zipOf(Object.fromEntries(contents)), '1.0.0');
    const published = await ann.send({ method: 'POST', url: `/api/plugins/${made.body.id}/versions/zip`, ...zip });
    t.match(published, { status: 201, body: { discovered: { skills: [{ name: 'bread' }] } } }, name);
    await t.rejects(writeSkillPackage(found, target), { message: /is not empty\. Pass a new folder/ });
  }
  const one = join(await write(t, { 'bread/SKILL.md': SKILL }), 'bread');
  t.same((await readSkillFolder(one)).skills, ['bread']);
});

t.test('a hostile folder or one without skills is refused with one sentence', async (t) => {
  const refuse = async (folder: string, message: RegExp) =>
    t.rejects(readSkillFolder(folder), { message, constructor: CommandError } as never);
  await refuse(await write(t, { 'x.md': 'x' }), /has no skills\. A skill is a folder with a SKILL\.md/);
  await refuse(await write(t, { 'Bread Skill/SKILL.md': SKILL }), /lower-case letters, digits and single hyphens/);
  await refuse(
    await write(t, { 'plugin.json': '[', 'skills/bread/SKILL.md': SKILL }),
    /plugin\.json is not a JSON object/,
  );
  await refuse(join(await temporaryFolder(t), 'none'), /is not a folder/);
  const linked = await write(t, { 'bread/SKILL.md': SKILL });
  await symlink('/etc/passwd', join(linked, 'bread/passwd'));
  await refuse(linked, /is a symbolic link or a device/);
  const whole = await write(t, { 'bread/SKILL.md': SKILL });
  await symlink(join(whole, 'bread'), join(whole, 'rye'));
  await refuse(whole, /is a symbolic link\. Replace it/);
  const deep = await write(t, { [`bread/${'a/'.repeat(13)}x`]: 'x', 'bread/SKILL.md': SKILL });
  await refuse(deep, /is too deep/);
});
