/** Spans from a session call to the host calls of plugins, as a collector gets them over OTLP/HTTP. */
import t from 'tap';
import { isTracingEnabled, startTracing, traced } from '../../../service/telemetry/tracing.ts';
import { serve } from '../../fixtures/listening-server.ts';
import { eventually } from '../../runner/eventually.ts';
import type { Teardown } from '../../runner/harness.ts';
import { connect, deliver } from '../delivery/channels.ts';
import { startSupervisorFixture } from '../supervisor-fixture.ts';

interface Received {
  readonly name: string;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly attributes: readonly { key: string; value: { stringValue?: string } }[];
}

async function startCollector(test: Teardown) {
  const spans: Received[] = [];
  const { url } = await serve(test, (request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const body = JSON.parse(Buffer.concat(chunks).toString('utf8'));
      for (const resource of body.resourceSpans)
        for (const scope of resource.scopeSpans) spans.push(...(scope.spans as Received[]));
      response.writeHead(200, { 'content-type': 'application/json' }).end('{}');
    });
  });
  return { spans, url };
}

const PLUGIN = `
  middleware.systemPrompt = async (ctx) => { await host.storage.set('a', 1); return ctx.systemPrompt + '!'; };
  channel.receive = () => undefined;`;
const TRACE = '0af7651916cd43dd8448eb211c80319c';
const CALLER = `00-${TRACE}-b7ad6b7169203331-01`;

t.test('traces are wanted by the standard variables only', async (t) => {
  t.notOk(isTracingEnabled({}));
  t.ok(isTracingEnabled({ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://x' }));
  t.ok(isTracingEnabled({ OTEL_TRACES_EXPORTER: 'otlp' }));
  t.notOk(isTracingEnabled({ OTEL_TRACES_EXPORTER: 'none', OTEL_EXPORTER_OTLP_ENDPOINT: 'http://x' }));
  for (const disabled of ['true', 'True', 'TRUE'])
    t.notOk(isTracingEnabled({ OTEL_SDK_DISABLED: disabled, OTEL_EXPORTER_OTLP_ENDPOINT: 'http://x' }));
  t.ok(isTracingEnabled({ OTEL_SDK_DISABLED: 'false', OTEL_EXPORTER_OTLP_ENDPOINT: 'http://x' }));
});

t.test('an empty variable of the sampler counts as absent', async (t) => {
  const collector = await startCollector(t);
  process.env.OTEL_EXPORTER_OTLP_ENDPOINT = collector.url;
  const trace = async (name: string, env: Readonly<Record<string, string>>, parent: string | null) => {
    const end = await startTracing('bulkhead-test', { ...process.env, ...env });
    await traced(name, { parent }, async () => undefined);
    await end();
  };
  await trace('kept', { OTEL_TRACES_SAMPLER: 'traceidratio', OTEL_TRACES_SAMPLER_ARG: '' }, null);
  await trace('not wanted by the caller', { OTEL_TRACES_SAMPLER: '' }, `00-${TRACE}-b7ad6b7169203331-00`);
  t.same(
    collector.spans.map(({ name }) => name),
    ['kept'],
  );
});

t.test('a session call and a webhook, down to what plugins call', async (t) => {
  const collector = await startCollector(t);
  process.env.OTEL_EXPORTER_OTLP_ENDPOINT = collector.url;
  const end = await startTracing('bulkhead-test', process.env);
  const fixture = await startSupervisorFixture(t);
  const installed = await fixture.install({ code: PLUGIN, slug: 'tracked', capabilities: ['host.storage'] });
  const session = await fixture.session();
  // On a busy machine, the start of its process would use up the budget of the hook.
  const [plugin] = (await fixture.supervisor.pluginsCache.get(installed.accountId)).plugins;
  t.equal(plugin && (await fixture.supervisor.fleet.wake(plugin)), null);
  const answer = await fixture.app.inject({
    method: 'POST',
    url: `/sessions/${session}/hooks/systemPrompt`,
    headers: { authorization: `Bearer ${await fixture.issuer.issue('ann')}`, traceparent: CALLER },
    payload: { context: { systemPrompt: 'one', model: 'm' } },
  });
  t.equal(answer.json().context.systemPrompt, 'one!');
  const channel = await connect(fixture, installed);
  await traced('webhook', { kind: 'server', parent: null }, () => deliver(fixture, installed, channel, ['x']));
  await eventually(async () => {
    const { rows } = await fixture.pool.query("SELECT 1 FROM deliveries WHERE state = 'delivered'");
    return rows.length === 1;
  });
  await fixture.supervisor.stop();
  await end();
  delete process.env.OTEL_EXPORTER_OTLP_ENDPOINT;

  const { spans } = collector;
  const line = (leaf: Received | undefined): string[] =>
    leaf === undefined ? [] : [leaf.name, ...line(spans.find(({ spanId }) => spanId === leaf.parentSpanId))];
  const hostCall = spans.find(({ name }) => name === 'host call');
  const route = 'POST /sessions/:sessionId/hooks/:hook';
  t.same(line(hostCall), ['host call', 'call', 'link', 'chain', route], 'each below what asked for it');
  t.equal(hostCall?.traceId, TRACE, 'in the caller’s own trace');
  const requestSpan = spans.find(({ name }) => name === route);
  t.equal(requestSpan?.parentSpanId, 'b7ad6b7169203331');
  const received = spans.find(({ name, parentSpanId }) => {
    return name === 'call' && spans.find(({ spanId }) => spanId === parentSpanId)?.name === 'delivery';
  });
  t.same(line(received), ['call', 'delivery', 'webhook'], 'a delivery belongs to its request');
  t.not(received?.traceId, TRACE);
  const texts = JSON.stringify(spans);
  t.notMatch(texts, 'one!', 'nothing that was said is in a trace');
});

t.test('a collector that refuses the spans is reported', async (t) => {
  const { url } = await serve(t, (request, response) => {
    request.resume();
    response.writeHead(401).end();
  });
  process.env.OTEL_EXPORTER_OTLP_ENDPOINT = url;
  process.env.OTEL_BSP_SCHEDULE_DELAY = '1';
  t.teardown(() => {
    delete process.env.OTEL_EXPORTER_OTLP_ENDPOINT;
    delete process.env.OTEL_BSP_SCHEDULE_DELAY;
  });
  const fault = Promise.withResolvers<Error>();
  const end = await startTracing('bulkhead-test', process.env, fault.resolve);
  await traced('call', {}, async () => undefined);
  t.match((await fault.promise).message, /^OpenTelemetry: .*401/, 'while the process runs');
  await end();
  const last = Promise.withResolvers<Error>();
  process.env.OTEL_BSP_SCHEDULE_DELAY = '60000';
  const endAtOnce = await startTracing('bulkhead-test', process.env, last.resolve);
  await traced('call', {}, async () => undefined);
  await endAtOnce();
  t.match((await last.promise).message, /^OpenTelemetry: .*401/, 'in the export at its end');
});
