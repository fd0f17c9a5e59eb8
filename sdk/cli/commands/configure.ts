/** `bulkhead configure`: sets settings and secrets of an installation, and whether it is required. */
import { hasRequiredChecks } from '../../contract/ending-checks.ts';
import { MASKED_MIN_CHARS } from '../../contract/limits.ts';
import { hasCode } from '../../session/transport.ts';
import type { Command, ParsedArgs } from '../command.ts';
import { describeCondition } from '../condition-text.ts';
import type { Context } from '../context.ts';
import { CommandError } from '../failure.ts';
import { requireInstallation } from '../lookup.ts';
import { formatEndingChecks, formatSecretUses } from '../reach-text.ts';
import type { Installation } from '../rest-types.ts';
import { askForSecret } from '../terminal-prompts.ts';
import { describeUpdate } from '../update-text.ts';

export const configure: Command = {
  name: 'configure',
  summary: 'Set the settings and secrets of an installation, or require it',
  args: [{ name: '<plugin>', doc: 'slug of the plugin, or id of the installation' }],
  options: [
    { flags: '-s, --set <name=value>', doc: 'set a setting (repeatable)', repeatable: true },
    {
      flags: '--secret <name[=value]>',
      doc: 'set a secret (repeatable); without a value it is read from BULKHEAD_SECRET_<name>, or asked for',
      repeatable: true,
    },
    { flags: '--unset <name>', doc: 'reset a setting to its default (repeatable)', repeatable: true },
    { flags: '--forget <name>', doc: 'remove a secret (repeatable)', repeatable: true },
    {
      flags: '--required',
      doc: 'stop messages and turns that its hooks check, if the plugin is not running, fails or times out',
    },
    { flags: '--no-required', doc: 'let messages and turns continue without the plugin' },
  ],
  examples: ['configure weather --set units=metric --secret apiKey', 'configure message-guard --required'],
  async run(context, args) {
    const rest = await context.getRest();
    const installation = await requireInstallation(rest, args.positional[0] ?? '');
    const { id, slug } = installation;
    refuseRepeatedNames(args, 'set', 'unset');
    refuseRepeatedNames(args, 'secret', 'forget');
    const settings = Object.fromEntries([
      ...args.list('set').map((text) => parsePair(text)),
      ...args.list('unset').map((name) => [name, null] as const),
    ]);
    const secrets: Record<string, string | null> = {};
    printSecretUses(context, installation, args.list('secret').map(readName));
    for (const text of args.list('secret')) {
      const [name, value] = text.includes('=') ? parsePair(text) : [text, await readSecret(context, text)];
      if (value === '') {
        const advice = `Pass a value. To remove the secret, pass \`--forget ${name}\`.`;
        throw new CommandError('usage', `The value of the secret ${name} is empty. ${advice}`);
      }
      // As the supervisor masks it: without white space around it.
      if (value.trim().length < MASKED_MIN_CHARS)
        context.output.printWarning(
          `The value of ${name} is shorter than ${MASKED_MIN_CHARS} characters, so it is not masked in what the plugin writes, such as its log.`,
        );
      secrets[name] = value;
    }
    for (const name of args.list('forget')) secrets[name] = null;
    const required = args.toggle('required');
    const hasValues = Object.keys(settings).length + Object.keys(secrets).length > 0;
    if (!hasValues && required === undefined) {
      const message =
        'Nothing to change. Pass `--set name=value`, `--unset name`, `--secret name`, `--forget name`, `--required` or `--no-required`.';
      throw new CommandError('usage', message);
    }
    const path = `/installations/${id}`;
    const setRequired = () => rest.patch<Installation>(path, { required });
    // Before the values, because these may let the plugin start. `--no-required` comes after them: it may begin a pending update.
    let updated = required === true ? await setRequired() : installation;
    // The version whose uses of secrets were printed: another one may have become current since.
    const values = { settings, secrets, versionId: installation.currentVersionId ?? undefined };
    if (hasValues) {
      updated = await rest.post<Installation>(`${path}/configure`, values).catch((error: unknown) => {
        if (required && !installation.required) printRequired(context, updated);
        throw explainPendingField(error, installation, [...Object.keys(settings), ...Object.keys(secrets)]);
      });
    }
    const before = updated;
    if (required === false) updated = await setRequired();
    context.output.printLine(`${slug}: ${updated.required ? 'required, ' : ''}${describeCondition(updated)}`);
    if (hasRequiredChecks(before) && !updated.required) printEnd(context, before, updated);
    return updated;
  },
};

/** Says what changed, although the command fails or is interrupted: as a note, which an interrupted command prints, too. */
function printRequired({ output }: Context, installation: Installation): void {
  const { slug } = installation;
  const effect = hasRequiredChecks(installation) ? ': while it does not run, messages and turns stop' : '';
  output.printNote(`${slug} is required now${effect}. To undo that, run \`bulkhead configure ${slug} --no-required\`.`);
}

/** The service refuses a field of an update that waits for consent as unknown. Returns that with the advice to accept the update. */
function explainPendingField(error: unknown, { slug, pendingUpdate }: Installation, given: readonly string[]): unknown {
  const names = given.filter((name) => pendingUpdate?.missing.includes(name));
  if (!hasCode(error, 'bad_request') || names.length === 0) return error;
  const advice = `${names.join(', ')}: needed by ${pendingUpdate?.semVer ?? 'the draft'}. Accept that first: bulkhead accept ${slug}`;
  return new CommandError(error.code, `${error.message}. ${advice}`);
}

/** Says which checks end because the plugin is no longer required. */
function printEnd({ output }: Context, before: Installation, updated: Installation): void {
  output.printLine(
    `You no longer require ${updated.slug}: while it does not run, fails or times out, messages and turns continue without its checks.`,
  );
  const ending = formatEndingChecks(before, output.paint);
  if (ending.length === 0) return;
  output.printLine(describeUpdate(updated));
  output.printLine(`With ${before.pendingUpdate?.semVer ?? 'the draft'}, these checks of it end:`);
  for (const line of ending) output.printLine(line);
}

/** Shows what the plugin does with the values that its user is about to give. */
function printSecretUses({ output }: Context, { slug, configuration }: Installation, names: readonly string[]): void {
  const lines = formatSecretUses(
    configuration.secrets.filter(({ name }) => names.includes(name)),
    output.paint,
  );
  if (lines.length > 0) output.printLine(`What ${slug} does with what you enter:`);
  for (const line of lines) output.printLine(line);
}

/** @throws CommandError if two options give the same name, since only one of them could be done */
function refuseRepeatedNames(args: ParsedArgs, setting: string, removing: string): void {
  const names = [...args.list(setting).map(readName), ...args.list(removing)];
  const repeated = names.find((name, index) => names.indexOf(name) < index);
  if (repeated === undefined) return;
  const message = `${repeated} is given more than once. Pass each name in one \`--${setting}\` or \`--${removing}\`.`;
  throw new CommandError('usage', message);
}

/** @param given as `name` or `name=value` */
const readName = (given: string): string => given.replace(/=.*/s, '');

function parsePair(text: string): [string, string] {
  const at = text.indexOf('=');
  if (at > 0) return [text.slice(0, at), text.slice(at + 1)];
  throw new CommandError('usage', `“${text}” is not of the form name=value.`);
}

/** Reads a secret from the environment, or asks for it: an argument would stay in the shell's history. */
async function readSecret(context: Context, name: string): Promise<string> {
  const variable = `BULKHEAD_SECRET_${name}`;
  const noTerminal = `There is no terminal to ask for ${name}. Set ${variable}.`;
  return context.env[variable] ?? (await askForSecret(context, name, noTerminal));
}
