/** The text of `.env.example`, made from the settings. */
import { apiSettings } from '../../api/config.ts';
import { describeSettings, type SettingDoc, sharedSettings } from '../../service/settings/settings.ts';
import { supervisorSettings } from '../../supervisor/config.ts';

const HEAD = `# Every setting, with its default. Set what you need in the environment, or copy this file to .env, which is read
# from the folder the service is started in. An empty one counts as not set. A bad one stops start-up and is named.
`;

/** The whole file: settings that API and supervisor share first, then those of each. */
export function envExample(): string {
  const shared = new Set(Object.keys(sharedSettings));
  const sections = [
    ['Both processes', describeSettings(sharedSettings)],
    ['API', describeSettings(apiSettings).filter(({ name }) => !shared.has(name))],
    ['Supervisor', describeSettings(supervisorSettings).filter(({ name }) => !shared.has(name))],
  ] as const;
  const written = sections.map(([title, settings]) => {
    const entries = settings.map((one) => `# ${one.doc}\n${range(one)}${one.name}=${one.fallback ?? ''}\n`);
    return `\n# --- ${title} ---\n\n${entries.join('\n')}`;
  });
  return HEAD + written.join('');
}

/** What may be written, where the meaning does not say it. */
function range({ unit, values }: SettingDoc): string {
  const said = [unit, values].filter((part) => part !== null).join(', ');
  return said === '' ? '' : `# (${said})\n`;
}
