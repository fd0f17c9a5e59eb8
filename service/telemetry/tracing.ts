/**
 * Runs work in OpenTelemetry spans, if the standard OTEL_* variables enable tracing. Otherwise the exporter is not loaded, and `traced`
 * costs one comparison. The process has one tracer, and the current span follows the asynchronous context.
 */

import type { Span, SpanSettings, Tracer } from './tracer.ts';

const noSpan: Span = { setAttributes: () => undefined, markFailed: () => undefined };
let tracer: Tracer | null = null;

/** Runs work in a span. Without tracing, only runs the work. */
export function traced<T>(name: string, settings: SpanSettings, work: (span: Span) => Promise<T>): Promise<T> {
  return tracer === null ? work(noSpan) : tracer.run(name, settings, work);
}

/** W3C traceparent of the current span; null: not traced. */
export const currentTrace = (): string | null => tracer?.current() ?? null;

/** Whether this process traces. Callers skip expensive preparations otherwise. */
export const isTracing = (): boolean => tracer !== null;

/** Whether the environment enables tracing. */
export function isTracingEnabled(env: Readonly<Record<string, string | undefined>>): boolean {
  // OpenTelemetry reads its boolean variables in any letter case.
  if (env.OTEL_SDK_DISABLED?.toLowerCase() === 'true') return false;
  const exporters = env.OTEL_TRACES_EXPORTER?.split(',').map((name) => name.trim());
  if (exporters !== undefined && exporters.join() !== '') return exporters.includes('otlp');
  return Boolean(env.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT || env.OTEL_EXPORTER_OTLP_ENDPOINT);
}

/**
 * Starts the tracer of this process if the environment enables it.
 *
 * @param service default of OTEL_SERVICE_NAME
 * @param onFault called for each export that fails
 * @returns a function that exports the remaining spans and stops the tracer
 */
export async function startTracing(
  service: string,
  env: Readonly<Record<string, string | undefined>>,
  onFault: (error: Error) => void = () => undefined,
): Promise<() => Promise<void>> {
  if (!isTracingEnabled(env)) return async () => undefined;
  const { openTracer } = await import('./opentelemetry.ts');
  const opened = openTracer(service, env, onFault);
  tracer = opened;
  return async () => {
    if (tracer === opened) tracer = null;
    await opened.close();
  };
}
