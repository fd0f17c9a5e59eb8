/** The OpenTelemetry tracer: sends spans over OTLP/HTTP. Loaded only when tracing is on. */

import {
  type Context,
  DiagLogLevel,
  diag,
  isSpanContextValid,
  type Link,
  ROOT_CONTEXT,
  type SpanContext,
  SpanKind,
  SpanStatusCode,
  trace,
} from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { defaultResource, detectResources, envDetector, resourceFromAttributes } from '@opentelemetry/resources';
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  BatchSpanProcessor,
  ParentBasedSampler,
  type Sampler,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from '@opentelemetry/sdk-trace';
import { RELEASE } from '../settings/release.ts';
import { within } from '../timing/within.ts';
import type { SpanSettings, Tracer } from './tracer.ts';

interface Fault {
  readonly name?: string;
  readonly code?: string | number;
  readonly message?: string;
}
type Environment = Readonly<Record<string, string | undefined>>;
const KINDS = { server: SpanKind.SERVER, consumer: SpanKind.CONSUMER, internal: SpanKind.INTERNAL } as const;
const TRACEPARENT = /^00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$/;
/** Maximum delay of shutdown by an unreachable collector. Milliseconds. */
const CLOSE_WITHIN_MS = 3_000;

/**
 * Opens the tracer. The exporter reads endpoint, headers and protocol from the OTEL_* variables.
 *
 * @param onFault called for each export that fails, and for settings that OpenTelemetry cannot read
 */
export function openTracer(service: string, env: Environment, onFault: (error: Error) => void): Tracer {
  // OpenTelemetry reports faults to its own logger only, and by default it has none.
  const report = (text: string): void => onFault(createFault(parseFault(text)));
  const ignore = (): void => undefined;
  const logger = { error: report, warn: report, info: ignore, debug: ignore, verbose: ignore };
  diag.setLogger(logger, { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true });
  const provider = new TracerProvider({
    resource: defaultResource()
      .merge(resourceFromAttributes({ 'service.name': service, 'service.version': RELEASE }))
      .merge(detectResources({ detectors: [envDetector] })),
    sampler: createSampler(env),
    spanProcessors: [new BatchSpanProcessor({ exporter: new OTLPTraceExporter() })],
  });
  const spans = provider.getTracer('bulkhead', RELEASE);
  const contexts = new AsyncLocalStorageContextManager().enable();
  return {
    current: () => formatTraceparent(trace.getSpanContext(contexts.active())),
    async run(name, settings, work) {
      const parent = findParent(contexts.active(), settings);
      const { kind = 'internal', attributes = {} } = settings;
      const span = spans.startSpan(name, { kind: KINDS[kind], attributes, links: createLinks(settings) }, parent);
      const markFailed = () => void span.setStatus({ code: SpanStatusCode.ERROR });
      const setAttributes = (added: object) => void span.setAttributes({ ...added });
      try {
        return await contexts.with(trace.setSpan(parent, span), () => work({ setAttributes, markFailed }));
      } catch (error) {
        markFailed();
        throw error;
      } finally {
        span.end();
      }
    },
    async close() {
      await within(
        provider.shutdown().catch((error) => onFault(createFault(error))),
        CLOSE_WITHIN_MS,
      );
      diag.disable();
      contexts.disable();
    },
  };
}

/** Errors come as JSON with their stack, warnings as text. */
function parseFault(text: string): Fault {
  try {
    return JSON.parse(text);
  } catch {
    return { message: text };
  }
}

const createFault = ({ name, code, message }: Fault): Error =>
  new Error(`OpenTelemetry: ${[name, code, message].filter((part) => part !== undefined && part !== '').join(' ')}`);

function findParent(active: Context, { parent }: SpanSettings): Context {
  if (parent === undefined) return active;
  const remote = readTraceparent(parent);
  return remote === null ? ROOT_CONTEXT : trace.setSpanContext(ROOT_CONTEXT, remote);
}

function createLinks({ link }: SpanSettings): Link[] {
  const context = readTraceparent(link ?? null);
  return context === null ? [] : [{ context }];
}

function readTraceparent(text: string | null): SpanContext | null {
  const [, traceId = '', spanId = '', flags = ''] = TRACEPARENT.exec(text ?? '') ?? [];
  const context = { traceId, spanId, traceFlags: Number.parseInt(flags, 16) & 1, isRemote: true };
  return isSpanContextValid(context) ? context : null;
}

function formatTraceparent(context: SpanContext | undefined): string | null {
  if (context === undefined || !isSpanContextValid(context)) return null;
  return `00-${context.traceId}-${context.spanId}-0${context.traceFlags & 1}`;
}

/** The standard samplers. `parentbased_…` follows the decision of the caller. The standard counts an empty variable as absent. */
function createSampler(env: Environment): Sampler {
  const name = env.OTEL_TRACES_SAMPLER || 'parentbased_always_on';
  const ratio = Number(env.OTEL_TRACES_SAMPLER_ARG || 1);
  const plain = name.replace(/^parentbased_/, '');
  const root =
    plain === 'always_off'
      ? new AlwaysOffSampler()
      : plain === 'traceidratio'
        ? new TraceIdRatioBasedSampler(Number.isFinite(ratio) ? ratio : 1)
        : new AlwaysOnSampler();
  return plain === name ? root : new ParentBasedSampler({ root });
}
