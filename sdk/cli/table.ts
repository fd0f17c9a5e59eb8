/** All commands, in the order of `bulkhead --help`. A new one is a file in `commands/` and a line here. */
import type { Command } from './command.ts';
import { check } from './commands/check.ts';
import { completionOf } from './commands/completion.ts';
import { login } from './commands/login.ts';
import { logout } from './commands/logout.ts';
import { whoami } from './commands/whoami.ts';

export const commands: readonly Command[] = [check, login, logout, whoami, completionOf(() => commands)];
