/** The text of `.env.example`, made from the settings. */
import { apiSettings } from '../../service/settings/api-settings.ts';
import { describeSettings, localSettings, type SettingDoc, sharedSettings } from '../../service/settings/settings.ts';
import { supervisorSettings } from '../../service/settings/supervisor-settings.ts';

const HEAD = `# Every setting, with its default. Set what you need in the environment, or copy this file to .env, which is read
# from the folder in which the service starts. An empty value counts as not set. An invalid value stops start-up with a sentence that
# names it.
`;

/** Settings that both processes share come first, then those of each, then those of `npm start`. */
export function envExample(): string {
  const shared = new Set(Object.keys(sharedSettings));
  const sections = [
    ['Both processes', describeSettings(sharedSettings)],
    ['API', describeSettings(apiSettings).filter(({ name }) => !shared.has(name))],
    ['Supervisor', describeSettings(supervisorSettings).filter(({ name }) => !shared.has(name))],
    ['npm start', describeSettings(localSettings)],
  ] as const;
  const written = sections.map(([title, settings]) => {
    const entries = settings.map((one) => `# ${one.doc}\n${range(one)}${one.name}=${one.fallback ?? ''}\n`);
    return `\n# --- ${title} ---\n\n${entries.join('\n')}`;
  });
  return HEAD + written.join('');
}

/** Unit and allowed values. */
function range({ unit, values }: SettingDoc): string {
  const text = [unit, values].filter((part) => part !== null).join(', ');
  return text === '' ? '' : `# (${text})\n`;
}
