/** `npm run -s token -- <user> [--name <name>] [--scopes <scopes>] [--operator] [--link]`: prints a bearer token for a user. */
import { readEnvironment } from '../service/settings/settings.ts';
import { issueToken } from './issue-token.ts';

try {
  console.log(await issueToken(process.argv.slice(2), readEnvironment));
} catch (error) {
  console.error(error instanceof Error ? error.message : String(error));
  process.exitCode = 1;
}
