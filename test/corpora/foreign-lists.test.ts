/**
 * Foreign lists against a whole service: nothing is answered with 500 or more, nothing is changed in silence, and each
 * difference from what a list says is named in docs/package-agreement.md with its reason.
 */
import { once } from 'node:events';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { json as readJson } from 'node:stream/consumers';
import naughty from 'big-list-of-naughty-strings' with { type: 'json' };
import t from 'tap';
import { startApiAndSupervisor } from '../deploy/service-fixture.ts';
import { amount } from '../runner/soak.ts';
import { checkKinds, checkTable, type TableRow } from './agreement-page.ts';
import { prepareDeployment } from './deployment.ts';
import { type CaseResult, cases as jsonCases, listEndpoints, tryCase } from './json-bodies.ts';
import { explainJson } from './json-reasons.ts';
import { explainStatus, listTargets, sendMalformed } from './malformed-targets.ts';
import { listSchemaCases } from './schema-cases.ts';
import { describeSchema, explainSchema } from './schema-reasons.ts';
import { findContradictions, judgeSchema } from './schemas.ts';
import { findChangedFiles, listTextFields, tryField } from './text-fields.ts';

/** More than any address takes, and than the buffers of a connection hold. */
const LARGE_BYTES = 8_000_000;
const LARGE_REQUESTS = amount({ quick: 3, soak: 30 });
/** One JSON text of this many is sent. */
const JSON_STEP = process.env.WRITE_PAGES === '1' ? 1 : amount({ quick: 20, soak: 1 });
const LIMITS = { READS_PER_MINUTE: '100000', WRITES_PER_MINUTE: '100000' };
const deployment = await prepareDeployment(await startApiAndSupervisor(t, LIMITS));

t.test('JSON test suite: a text is JSON for all of seven addresses, or for none', async (t) => {
  const endpoints = listEndpoints(deployment);
  const results: CaseResult[] = [];
  const tried = jsonCases.filter((_, at) => at % JSON_STEP === 0);
  for (const one of tried) results.push(await tryCase(one, endpoints));
  for (const { name, broken, outcomes } of results) {
    for (const answer of broken) t.fail(`${name}: ${answer}`);
    const refusals = [...outcomes.values()].filter((outcome) => outcome === 'refused').length;
    if (refusals > 0 && refusals < endpoints.length) t.fail(`${name}: refused by some`, Object.fromEntries(outcomes));
  }
  const kinds = Map.groupBy(results, describeResult);
  const rows = [...kinds].toSorted().map(([kind, all]): TableRow => {
    const why = explainJson(kind);
    if (why === null) t.fail(`${kind}: the difference is not explained`);
    return [kind, String(all.length), why ? all.map(({ name }) => name).join(' ') : '', why ?? ''];
  });
  t.equal(endpoints.length, 7);
  if (JSON_STEP === 1) await checkTable(t, 'JSON', ['Outcome', 'Texts', 'Those that differ', 'Why'], rows);
  else await checkKinds(t, 'JSON', new Map(rows.map((row) => [row[0] ?? '', row[3] ?? ''])));
});

t.test('malformed HTTP at five targets is answered, and with a problem', async (t) => {
  const targets = listTargets(deployment);
  t.equal(targets.length, 5);
  const rows: TableRow[] = [];
  for (const { name, expected, statuses, faults } of await sendMalformed(targets)) {
    for (const fault of faults) t.fail(`${name}: ${fault}`);
    const why = statuses.every((status) => status === expected) ? '' : explainStatus(name);
    if (why === null) t.fail(`${name}: ${statuses} and not ${expected}`);
    rows.push([name, ...statuses.map(String), why ?? '']);
  }
  await checkTable(t, 'Malformed HTTP', ['Request', ...targets.map(({ name }) => name), 'Why'], rows);
});

t.test('a body that is too large is answered while it is sent, at five targets', async (t) => {
  const body = 'x'.repeat(LARGE_BYTES);
  for (const { name, port, postTo, headers } of listTargets(deployment)) {
    const authorization = headers[0]?.replace('Authorization: ', '') ?? '';
    for (let request = 0; request < LARGE_REQUESTS; request += 1) {
      const sent = { 'content-type': 'application/json', authorization };
      const answer = await postWhole(`http://127.0.0.1:${port}${postTo}`, sent, body);
      // Operations ports accept no POST.
      const [status, code] = postTo === '/healthz' ? [405, 'method_not_allowed'] : [413, 'too_large'];
      t.match(answer, { status, body: { code } }, name);
    }
  }
});

t.test('JSON Schema test suite: parameters of tools take and refuse what it says', async (t) => {
  const judged = listSchemaCases().map(judgeSchema);
  const rows = [...Map.groupBy(judged, describeSchema)].toSorted().map(([kind, all]): TableRow => {
    const why = explainSchema(kind);
    if (why === null)
      t.fail(`${kind}: the difference is not explained`, { refusals: all.map(({ refusal }) => refusal) });
    const values = all.reduce((sum, { tests }) => sum + tests.length, 0);
    return [kind, String(all.length), String(values), why ?? ''];
  });
  await checkTable(t, 'JSON Schema', ['Outcome', 'Schemas', 'Values', 'Why'], rows);
  const step = amount({ quick: 24, soak: 1 });
  const called = judged.filter((_, at) => at % step === 0);
  t.same(await findContradictions(deployment, called), [], `${called.length} schemas, published and called`);
});

t.test('Big List of Naughty Strings: a text field keeps a text as it is, or says why not', async (t) => {
  const spare = await deployment.ann.need(
    deployment.ann.post('/plugins', { slug: 'spare', displayName: 'Spare' }),
    201,
  );
  const fields = listTextFields(deployment, spare.id, 'spare');
  const step = amount({ quick: 80, soak: 1 });
  const rows: TableRow[] = [];
  for (const [at, field] of fields.entries()) {
    const texts = naughty.filter((_, index) => (index + at) % step === 0);
    const { refused, faults } = await tryField(field, texts);
    for (const fault of faults) t.fail(`${field.name}: ${fault}`);
    const known = field.refuses?.map(({ what }) => what) ?? [];
    if (step === 1) t.same([...refused].toSorted(), known.toSorted(), `${field.name} refuses what is said of it`);
    rows.push([field.name, known.join(', ')]);
  }
  t.same(await findChangedFiles(deployment, spare.id, naughty), [], `${naughty.length} files`);
  await checkTable(t, 'Naughty strings', ['Field', 'Refuses'], rows);
});

/** Waits until the body is sent, too: only so many refused bodies are read on at once, and `fetch` would start the next. */
async function postWhole(
  url: string,
  headers: Readonly<Record<string, string>>,
  body: string,
): Promise<{ status: number | undefined; body: unknown }> {
  const request = httpRequest(url, { method: 'POST', headers });
  const isSent = once(request, 'finish');
  const answered = once(request, 'response');
  request.end(body);
  const [response] = (await answered) as [IncomingMessage];
  const answer = await readJson(response);
  await isSent;
  return { status: response.statusCode, body: answer };
}

/** The suite's expectation, and the outcome of a text. */
function describeResult({ verdict, outcomes, reasons }: CaseResult): string {
  const found = new Set(outcomes.values());
  const outcome = found.has('refused') ? 'refused' : found.has('read otherwise') ? 'read otherwise' : 'read alike';
  return `${verdict} in the suite: ${[outcome, ...reasons].join('. ')}`;
}
