/** The tools of the host, by group. A session offers the groups that its runtime asked for. */
import type { Session } from '../../db/sessions/sessions.ts';
import { hostToolGroups } from '../../sdk/contract/full-names.ts';
import type { HostTool } from './host-tool.ts';
import { mailTools } from './mail-tools.ts';
import { notifyTools } from './notify-tools.ts';
import { sshTools } from './ssh-tools.ts';
import { todoTools } from './todo-tools.ts';

const groups: Readonly<Record<(typeof hostToolGroups)[number], readonly HostTool[]>> = {
  todo: todoTools,
  notify: notifyTools,
  agent: mailTools,
  ssh: sshTools,
};
const byName = new Map(
  hostToolGroups.flatMap((group) => groups[group].map((tool) => [tool.name, { group, tool }] as const)),
);

export const listHostTools = ({ hostTools }: Session): readonly HostTool[] =>
  hostToolGroups.filter((group) => hostTools.includes(group)).flatMap((group) => groups[group]);

/** Undefined: the host has no such tool, or the session does not offer it. */
export function findHostTool({ hostTools }: Session, name: string): HostTool | undefined {
  const found = byName.get(name);
  return found && hostTools.includes(found.group) ? found.tool : undefined;
}
