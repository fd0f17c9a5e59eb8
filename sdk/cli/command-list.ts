/** All commands in the order of `bulkhead --help`. */
import type { Command } from './command.ts';
import { accept } from './commands/accept.ts';
import { call } from './commands/call.ts';
import { channels } from './commands/channels.ts';
import { check } from './commands/check.ts';
import { createCompletionCommand } from './commands/completion.ts';
import { configure } from './commands/configure.ts';
import { conformRuntime } from './commands/conform-runtime.ts';
import { delist } from './commands/delist.ts';
import { deliveries } from './commands/deliveries.ts';
import { delivery, giveUp, replay, tryNow } from './commands/delivery-commands.ts';
import { dev } from './commands/dev.ts';
import { fire } from './commands/fire.ts';
import { importSkills } from './commands/import-skills.ts';
import { init } from './commands/init.ts';
import { install } from './commands/install.ts';
import { pause, restart, resume } from './commands/installation-commands.ts';
import { list } from './commands/list.ts';
import { login } from './commands/login.ts';
import { logout } from './commands/logout.ts';
import { logs } from './commands/logs.ts';
import { mcp } from './commands/mcp.ts';
import { publish } from './commands/publish.ts';
import { retry } from './commands/retry.ts';
import { ssh } from './commands/ssh.ts';
import { status } from './commands/status.ts';
import { tokens } from './commands/tokens.ts';
import { uninstall } from './commands/uninstall.ts';
import { usage } from './commands/usage.ts';
import { whoami } from './commands/whoami.ts';
import { yank } from './commands/yank.ts';

export const commands: readonly Command[] = [
  init,
  importSkills,
  check,
  dev,
  publish,
  list,
  delist,
  yank,
  install,
  configure,
  accept,
  retry,
  status,
  pause,
  resume,
  restart,
  uninstall,
  logs,
  call,
  fire,
  channels,
  deliveries,
  delivery,
  replay,
  tryNow,
  giveUp,
  mcp,
  conformRuntime,
  login,
  logout,
  whoami,
  ssh,
  tokens,
  usage,
  createCompletionCommand(() => commands),
];
