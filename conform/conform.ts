/** `npm run conform -- <url> <token>`: holds a deployment against each sentence of its specification and contract. */
import { parseArgs } from 'node:util';
import type { Addresses } from './account.ts';
import { chapters } from './chapters/chapters.ts';
import { checkRows } from './check-rows.ts';
import { abortOnSignals, INTERRUPTED_EXIT_CODE } from './interruption.ts';
import { formatResults, summarizeResults } from './print-results.ts';
import { Run } from './run.ts';

const HELP = `Usage: npm run conform -- <url> <token> [options]

Checks a running deployment from outside, sentence by sentence, with plugins of its own that it publishes. Prints a table:
sentence, then held, failed with the evidence, or skipped with the reason. Exits with 0 if no row failed, with 1 if one did
or something could not be removed, with 2 if it could not begin, and with 130 after Ctrl-C.

  <url>     the REST interface, such as http://localhost:4000/api
  <token>   of an account made for this: its other plugins would take part in every hook

Options
  --sessions <url>   the session API. Default: the address that the deployment tells its console
  --webhooks <url>   base of the webhook addresses, where this machine reaches them at another address than vendors do
  --other <token>    a second account; without it, rows about other accounts are skipped
  --only <text>      checks the rows whose sentence or chapter contains the text
  --keep             leaves what the run created
  --json             prints the results as JSON
  --help             shows this

A run sends about 1,000 requests and takes a minute and a half. Where the deployment's rate limits ask to wait, it waits.
The command removes everything that it created at its end and after Ctrl-C, except about 30 plugins with a published version, which it
delists because they cannot be deleted. What it cannot remove, it lists.`;

const INTERRUPTED =
  'Interrupted: the rows under way end, then the command removes what it created. A second Ctrl-C ends it at once.';

const { values: flags, positionals } = readArguments();
const [url, token] = positionals.map((given) => given.trim());
const other = flags.other?.trim();
/** What `fetch` refuses in a header, with an error that quotes the header. */
const UNSENDABLE = /[^\t\x20-\x7e\x80-\xff]/;

if (flags.help) console.log(HELP);
else if (url === undefined || token === undefined) fail(`Give the address and a token.\n\n${HELP}`);
else if (UNSENDABLE.test(token) || UNSENDABLE.test(other ?? ''))
  fail('A token has a line break or another character that no token has. Check that it was copied whole and alone.');
else await check(url.replace(/\/$/, ''), token);

function readArguments() {
  try {
    return parseArgs({
      options: {
        sessions: { type: 'string' },
        webhooks: { type: 'string' },
        other: { type: 'string' },
        only: { type: 'string' },
        keep: { type: 'boolean', default: false },
        json: { type: 'boolean', default: false },
        help: { type: 'boolean', short: 'h', default: false },
      },
      allowPositionals: true,
    });
  } catch (error) {
    fail(`${(error as Error).message}\n\n${HELP}`);
    process.exit();
  }
}

async function check(rest: string, token: string): Promise<void> {
  const selected = selectRows(flags.only);
  if (selected.every(({ rows }) => rows.length === 0))
    return fail(`No row contains “${flags.only}”. Give --only a part of a sentence or of the title of a chapter.`);
  const addresses = await findAddresses(rest).catch((error: Error) =>
    fail(`No deployment answers at ${rest}: ${error.message}.`),
  );
  if (addresses === undefined) return;
  const run = new Run(addresses, token, other ?? null);
  const me = await run.own.get('/me');
  if (me.status !== 200) return fail(`The token is not accepted: ${me.text.slice(0, 300)}`);
  const interrupted = abortOnSignals();
  const onAbort = (): void => console.error(INTERRUPTED);
  interrupted.addEventListener('abort', onAbort, { once: true });
  const results = await checkRows(run, selected, interrupted);
  console.log(
    flags.json ? JSON.stringify(results, null, 2) : `${formatResults(results)}\n${summarizeResults(results)}`,
  );
  const left = flags.keep ? [] : await run.close();
  for (const line of left) console.error(`not removed: ${line}`);
  const isBad = left.length > 0 || results.some(({ verdict }) => verdict === 'failed');
  // Streams of a deployment that does not end them would keep the process alive.
  process.exit(interrupted.aborted ? INTERRUPTED_EXIT_CODE : isBad ? 1 : 0);
}

/** The deployment tells its console where the session API is. @returns undefined if that address would get the token unencrypted */
async function findAddresses(rest: string): Promise<Addresses | undefined> {
  const response = await fetch(`${rest}/sign-in`);
  // Beside the REST interface, the console answers any address with its page.
  if (!response.ok || !response.headers.get('content-type')?.includes('json'))
    throw new Error(`GET /sign-in gave ${response.status} and no facts about it. The address ends in /api`);
  const facts = (await response.json()) as { sessionApiUrl?: string | null };
  const sessions = flags.sessions ?? facts.sessionApiUrl ?? null;
  if (flags.sessions === undefined && rest.startsWith('https:') && sessions !== null && isPlain(sessions))
    return fail(
      `${rest} publishes ${sessions} as the address of its session API, where the token would be sent unencrypted. The operator should set SUPERVISOR_URL to an https address. To use the address all the same, pass --sessions ${sessions}.`,
    );
  return { rest, sessions: sessions?.replace(/\/$/, '') ?? null, webhooks: flags.webhooks?.replace(/\/$/, '') ?? null };
}

/** Whether a connection to the address crosses a network without encryption. */
function isPlain(url: string): boolean {
  const { protocol, hostname } = new URL(url);
  return protocol === 'http:' && !/^(?:localhost|127(?:\.\d+){3}|\[::1\])$/.test(hostname);
}

function selectRows(text: string | undefined) {
  if (text === undefined) return chapters;
  return chapters.map(({ title, rows }) => ({
    title,
    rows: title.includes(text) ? rows : rows.filter(({ sentence }) => sentence.includes(text)),
  }));
}

function fail(message: string): undefined {
  console.error(message);
  process.exitCode = 2;
}
