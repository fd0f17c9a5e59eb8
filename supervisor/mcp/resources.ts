/** Offers skills with their files, and media, as resources of the Model Context Protocol. */
import {
  type ListResourcesRequest,
  ListResourcesRequestSchema,
  ListResourceTemplatesRequestSchema,
  type ReadResourceRequest,
  ReadResourceRequestSchema,
  type Resource,
} from '@modelcontextprotocol/sdk/types.js';
import { findMedia } from '../../db/accounts/media.ts';
import { decodeCursor, toPage } from '../../db/postgres/cursors.ts';
import { isStorable } from '../../db/postgres/storable-json.ts';
import type { Session } from '../../db/sessions/sessions.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import { formatFullName } from '../../sdk/contract/full-names.ts';
import { isCostly } from '../../service/http/costly-answers.ts';
import { waitForLoopTurn } from '../../service/timing/loop-turns.ts';
import type { SessionServices } from '../sessions/session-services.ts';
import { listResourcesOf, readSkillFile, SKILL_TEXT, type Skill, type SkillResource } from '../sessions/skill-files.ts';
import { findSkill, listSkills } from '../sessions/skills.ts';
import { type Content, readJudged } from './judged-content.ts';
import type { ServerParts } from './server-parts.ts';
import type { HandlerExtra } from './setup-questions.ts';

/** `skill://<slug>__<skill>/<path>` and `media://<id>`. */
const SKILL_URI = /^skill:\/\/([^/]+)\/(.+)$/;
const MEDIA_URI = /^media:\/\/([^/]+)$/;
/** Maximum number of skills in a page of `resources/list`. Their files are read with one query. */
const PAGE_SKILLS = 100;
const MARKDOWN = 'text/markdown';
/** Maximum size of a file in one response. */
const MEDIA_MAX_BYTES = 8 * 1024 * 1024;

const formatUri = (skill: Skill, path: string): string =>
  `skill://${formatFullName(skill.plugin, skill.text.name)}/${path.split('/').map(encodeURIComponent).join('/')}`;

export function offerResources({ server, services, session, wrap }: ServerParts): void {
  const list = ({ params }: ListResourcesRequest) => listPage(services, session, params?.cursor);
  server.setRequestHandler(ListResourcesRequestSchema, wrap(list));
  server.setRequestHandler(ListResourceTemplatesRequestSchema, async () => ({
    resourceTemplates: [
      { uriTemplate: 'media://{id}', name: 'media', description: 'A file that a plugin keeps, by its media id.' },
    ],
  }));
  const readOne = async ({ params: { uri } }: ReadResourceRequest, { signal }: HandlerExtra) => {
    const reading = { name: 'read_resource', arguments: { uri }, signal };
    const parts = await readJudged(services, session, reading, (args) => read(services, session, readUri(args)));
    // The library writes the answer as soon as it has it.
    if (isCostly(parts)) await waitForLoopTurn(session.accountId);
    return { contents: parts.map((part) => ({ uri, ...part })) };
  };
  server.setRequestHandler(ReadResourceRequestSchema, wrap(readOne));
}

/** Lists skills by name, so that the cursor stays valid when plugins come and go. @throws Problem for an invalid cursor */
async function listPage(services: SessionServices, session: Session, cursor: string | undefined) {
  const after = decodeCursor(cursor) ?? '';
  const { plugins } = await services.pluginsCache.get(session.accountId);
  // An account can have ten thousand skills.
  await waitForLoopTurn(session.accountId);
  const following = listSkills(plugins)
    .map((skill) => ({ skill, name: formatFullName(skill.plugin, skill.text.name) }))
    .filter(({ name }) => name > after)
    .sort((one, other) => (one.name < other.name ? -1 : 1));
  const skills = following.slice(0, PAGE_SKILLS).map(({ skill }) => skill);
  const files = await listResourcesOf(services, skills);
  const { items, nextCursor } = toPage(following, files.length, ({ name }) => name);
  const resources = items.flatMap(({ skill, name }, index) => describe(skill, name, files[index] ?? []));
  return nextCursor === null ? { resources } : { resources, nextCursor };
}

function describe(skill: Skill, name: string, beside: readonly SkillResource[]): Resource[] {
  const whole = { uri: formatUri(skill, SKILL_TEXT), name, description: skill.text.description, mimeType: MARKDOWN };
  return [
    whole,
    ...beside.map(({ path, sizeBytes }) => ({ uri: formatUri(skill, path), name: `${name}/${path}`, size: sizeBytes })),
  ];
}

/** The URI after the plugins' changes. */
function readUri(args: unknown): string {
  const { uri } = (args ?? {}) as { readonly uri?: unknown };
  return typeof uri === 'string' ? uri : '';
}

async function read(services: SessionServices, session: Session, uri: string): Promise<Content> {
  const [, skillName, path] = SKILL_URI.exec(uri) ?? [];
  if (skillName !== undefined && path !== undefined) {
    const skill = await findSkill(services, session, skillName);
    const file = await readSkillFile(services, skill, decoded(path));
    if (file.content === null) throw new Problem('too_large', 'The file is too large for one answer.');
    const mimeType = path === SKILL_TEXT ? MARKDOWN : file.mediaType;
    return file.encoding === 'utf8' ? { mimeType, text: file.content } : { mimeType, blob: file.content };
  }
  const [, mediaId] = MEDIA_URI.exec(uri) ?? [];
  const found =
    mediaId !== undefined && isStorable(mediaId) ? await findMedia(services.pool, session.accountId, mediaId) : null;
  if (!found) throw new Problem('not_found', 'No resource has this URI.');
  if (found.sizeBytes > MEDIA_MAX_BYTES)
    throw new Problem(
      'too_large',
      `The file is larger than ${MEDIA_MAX_BYTES} bytes. Get it with GET /media/${mediaId}.`,
    );
  await waitForLoopTurn(session.accountId);
  return { mimeType: found.mediaType, blob: (await services.blobs.read(found.sha256)).toString('base64') };
}

function decoded(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    throw new Problem('not_found', 'No resource has this URI.');
  }
}
