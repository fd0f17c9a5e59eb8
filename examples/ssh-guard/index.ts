import { dangerIn } from './dangers.ts';
import { hideSecrets } from './secrets.ts';

middleware.sshCommand = (ctx) => {
  const danger = dangerIn(ctx.command) ?? forbiddenPart(ctx.command, ctx.settings.forbidden);
  if (!danger) return;
  host.log.warn('Refused a command', { host: ctx.host.id, danger });
  ctx.cancel(`Not on ${ctx.host.name}: the command ${danger}.`);
};

middleware.sshCommandInput = (ctx) => {
  const data = hideSecrets(ctx.data);
  if (data !== ctx.data) return { data };
};

// A failing handler is skipped here, because the command has already run. So this handler must not fail.
middleware.sshCommandOutput = (ctx) => ({ stdout: hideSecrets(ctx.stdout), stderr: hideSecrets(ctx.stderr) });

function forbiddenPart(command: string, setting = ''): string | undefined {
  const parts = setting.split(',').map((part) => part.trim());
  const found = parts.find((part) => part !== '' && command.includes(part));
  return found && `has “${found}” in it`;
}
