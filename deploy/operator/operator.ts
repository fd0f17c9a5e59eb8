/** `npm run -s operator -- <command>`: runs an operator command, whether or not the service runs. */
import { readEnvironment } from '../../service/settings/settings.ts';
import { runCommandLine } from './run-command.ts';

process.exitCode = await runCommandLine(process.argv.slice(2), {
  readEnvironment,
  print: console.log,
  printError: console.error,
});
