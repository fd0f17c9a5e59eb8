/** The text of docs/settings.md, made from the settings. */
import { apiSettings } from '../../service/settings/api-settings.ts';
import { describeSettings, localSettings, type SettingDoc, sharedSettings } from '../../service/settings/settings.ts';
import { supervisorSettings } from '../../service/settings/supervisor-settings.ts';

const HEAD = `# Settings

Generated from \`service/settings\` by \`npm run -s generate\`.

Set an environment variable, or write the line into a file \`.env\` in the folder in which the service starts; a variable wins over the file.
\`.env.example\` is the same list, to copy. An empty value counts as not set. An invalid value stops start-up with one sentence that names it.
A name in \`.env\` that is not a setting, and a variable whose name is nearly that of a setting, has no effect; a warning at start-up names it.

**Restart the processes after a change: each setting is read once, at start-up.** With \`npm start\`, stop and start it: it reads \`.env\` once for all its
processes, so a process that \`SIGUSR2\` replaces or that is restarted after a crash keeps the settings, whatever is in \`.env\` by then. Files that a setting names (\`MODELS_FILE\`, \`SSH_HOSTS_FILE\`) are read at each start of a process, so a changed
file needs \`SIGUSR2\` only. So does a new variable of a model's key (\`apiKeyEnv\`) that you add to \`.env\`; a changed value needs a restart of \`npm start\`.

Rate limits count per process. [Operating](operating.md#monitoring) lists the standard variables of OpenTelemetry.
`;

function section(title: string, settings: readonly SettingDoc[]): string {
  const rows = settings.map(({ name, fallback, unit, values, doc }) => {
    const cells = [`\`${name}\``, fallback ? `\`${fallback}\`` : '', unit ?? '', values ?? '', doc];
    return `| ${cells.map((cell) => cell.replaceAll(/[|<]/g, '\\$&')).join(' | ')} |`;
  });
  return [
    `\n## ${title}\n`,
    '| Setting | Default | Unit | Values | Meaning |',
    '|---|---|---|---|---|',
    ...rows,
    '',
  ].join('\n');
}

export function settingsPage(): string {
  const shared = new Set(Object.keys(sharedSettings));
  const describeOwn = (settings: Parameters<typeof describeSettings>[0]) =>
    describeSettings(settings).filter(({ name }) => !shared.has(name));
  return [
    HEAD,
    section('API and supervisor', describeSettings(sharedSettings)),
    section('API', describeOwn(apiSettings)),
    section('Supervisor', describeOwn(supervisorSettings)),
    section('npm start', describeSettings(localSettings)),
  ].join('');
}
