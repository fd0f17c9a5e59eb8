import { dangerIn } from './dangers.ts';
import { hideSecrets } from './secrets.ts';

middleware.sshCommand = (ctx) => refuseDanger(ctx, 'command', ctx.command);

middleware.sshCommandInput = (ctx) => {
  // A shell runs its input.
  refuseDanger(ctx, 'input', ctx.data);
  const data = hideSecrets(ctx.data);
  if (data !== ctx.data) return { data };
};

// A failing handler is skipped here, because the command has already run. So this handler must not fail.
middleware.sshCommandOutput = (ctx) => ({ stdout: hideSecrets(ctx.stdout), stderr: hideSecrets(ctx.stderr) });

type Judged = Bulkhead.SshCommandContext | Bulkhead.SshCommandInputContext;

function refuseDanger({ host: target, settings, cancel }: Judged, what: string, text: string): void {
  const danger = dangerIn(text) ?? forbiddenPart(text, settings.forbidden);
  if (!danger) return;
  host.log.warn(`Refused the ${what} of a command`, { host: target?.id, danger });
  cancel(`Not on ${target?.name ?? 'this host'}: the ${what} ${danger}.`);
}

function forbiddenPart(text: string, setting = ''): string | undefined {
  const parts = setting.split(',').map((part) => part.trim());
  const found = parts.find((part) => part !== '' && text.includes(part));
  return found && `has “${found}” in it`;
}
