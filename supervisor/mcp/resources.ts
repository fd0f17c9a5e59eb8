/** Offers skills with their files, and media, as resources of the Model Context Protocol. */
import {
  ListResourcesRequestSchema,
  ListResourceTemplatesRequestSchema,
  type ReadResourceRequest,
  ReadResourceRequestSchema,
  type Resource,
} from '@modelcontextprotocol/sdk/types.js';
import { findMedia } from '../../db/accounts/media.ts';
import { isStorable } from '../../db/postgres/storable-json.ts';
import type { Session } from '../../db/sessions/sessions.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import { formatFullName } from '../../sdk/contract/full-names.ts';
import type { SessionServices } from '../sessions/session-services.ts';
import { listResources, readSkillFile, SKILL_TEXT, type Skill } from '../sessions/skill-files.ts';
import { findSkill, listSkills } from '../sessions/skills.ts';
import type { ServerParts } from './server-parts.ts';

/** `skill://<slug>__<skill>/<path>` and `media://<id>`. */
const SKILL_URI = /^skill:\/\/([^/]+)\/(.+)$/;
const MEDIA_URI = /^media:\/\/([^/]+)$/;
const MARKDOWN = 'text/markdown';
/** Maximum size of a file in one response. */
const MEDIA_MAX_BYTES = 8 * 1024 * 1024;

const formatUri = (skill: Skill, path: string): string =>
  `skill://${formatFullName(skill.plugin, skill.text.name)}/${path.split('/').map(encodeURIComponent).join('/')}`;

/** Handles `resources/list`, `resources/templates/list` and `resources/read`. */
export function offerResources({ server, services, session, wrap }: ServerParts): void {
  const listAll = async () => {
    const { plugins } = await services.pluginsCache.get(session.accountId);
    const described = await Promise.all(listSkills(plugins).map((skill) => describe(services, skill)));
    return { resources: described.flat() };
  };
  server.setRequestHandler(ListResourcesRequestSchema, wrap(listAll));
  server.setRequestHandler(ListResourceTemplatesRequestSchema, async () => ({
    resourceTemplates: [
      { uriTemplate: 'media://{id}', name: 'media', description: 'A file that a plugin keeps, by its media id.' },
    ],
  }));
  const readOne = async ({ params: { uri } }: ReadResourceRequest) => ({
    contents: [{ uri, ...(await read(services, session, uri)) }],
  });
  server.setRequestHandler(ReadResourceRequestSchema, wrap(readOne));
}

async function describe(services: SessionServices, skill: Skill): Promise<Resource[]> {
  const name = formatFullName(skill.plugin, skill.text.name);
  const whole = { uri: formatUri(skill, SKILL_TEXT), name, description: skill.text.description, mimeType: MARKDOWN };
  const beside = await listResources(services, skill);
  return [
    whole,
    ...beside.map(({ path, sizeBytes }) => ({ uri: formatUri(skill, path), name: `${name}/${path}`, size: sizeBytes })),
  ];
}

type Content = { mimeType?: string; text: string } | { mimeType?: string; blob: string };

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
    throw new Problem('too_large', `It has more than ${MEDIA_MAX_BYTES} bytes: get it from /media/${mediaId}.`);
  return { mimeType: found.mediaType, blob: (await services.blobs.read(found.sha256)).toString('base64') };
}

function decoded(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    throw new Problem('not_found', 'No resource has this URI.');
  }
}
