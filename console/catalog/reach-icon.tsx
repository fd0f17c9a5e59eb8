/** The icon of a capability. */
import {
  type Icon,
  IconArrowsMinimize,
  IconBell,
  IconBolt,
  IconBook,
  IconBrain,
  IconChecklist,
  IconDatabase,
  IconFolder,
  IconMessageCircle,
  IconMessages,
  IconPhoto,
  IconPlug,
  IconPrompt,
  IconRobot,
  IconSlash,
  IconSparkles,
  IconTerminal2,
  IconTool,
  IconWebhook,
  IconWorld,
} from '../style/icons.tsx';

/** Icons by prefix of the capability. The first match wins. */
const ICONS: readonly (readonly [string, Icon])[] = [
  ['channel', IconWebhook],
  ['middleware.systemPrompt', IconPrompt],
  ['middleware.todo', IconChecklist],
  ['middleware.notify', IconBell],
  ['middleware.ssh', IconTerminal2],
  ['middleware.session', IconMessages],
  ['middleware.', IconMessageCircle],
  ['compaction', IconArrowsMinimize],
  ['tools', IconTool],
  ['commands', IconSlash],
  ['skills', IconBook],
  ['events', IconBolt],
  ['providers', IconBrain],
  ['host.llm', IconSparkles],
  ['host.models', IconBrain],
  ['host.http', IconWorld],
  ['host.storage', IconDatabase],
  ['host.workspace', IconFolder],
  ['host.media', IconPhoto],
  ['host.session', IconMessages],
  ['host.agents', IconRobot],
  ['host.ssh', IconTerminal2],
];

export function ReachIcon({ capability }: { readonly capability: string }) {
  const Icon = ICONS.find(([start]) => capability.startsWith(start))?.[1] ?? IconPlug;
  return <Icon size={17} stroke={1.7} />;
}
