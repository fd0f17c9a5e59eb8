/**
 * Spans of what is done for whom, for OpenTelemetry. Off unless the standard OTEL_* variables ask for it; then nothing of
 * it is loaded, and `traced` costs a comparison. The one tracer of a process is ambient, as the span under way is.
 */

import type { Span, SpanSettings, Tracer } from './tracer.ts';

const noSpan: Span = { note: () => undefined, fail: () => undefined };
let tracer: Tracer | null = null;

/** Runs work inside a span. */
export function traced<T>(name: string, settings: SpanSettings, work: (span: Span) => Promise<T>): Promise<T> {
  return tracer === null ? work(noSpan) : tracer.run(name, settings, work);
}

/** W3C traceparent of the span under way; null: nobody traces it. */
export const currentTrace = (): string | null => tracer?.current() ?? null;

/** Whether anybody looks: for callers whose preparations cost something. */
export const isTracing = (): boolean => tracer !== null;

/** Whether the environment asks for traces. */
export function wantsTraces(env: Readonly<Record<string, string | undefined>>): boolean {
  if (env.OTEL_SDK_DISABLED === 'true') return false;
  const exporters = env.OTEL_TRACES_EXPORTER?.split(',').map((name) => name.trim());
  if (exporters !== undefined && exporters.join() !== '') return exporters.includes('otlp');
  return Boolean(env.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT || env.OTEL_EXPORTER_OTLP_ENDPOINT);
}

/**
 * Starts the tracer of this process where the environment asks for one.
 *
 * @param service the name of the process where OTEL_SERVICE_NAME gives none
 * @returns ends it, and exports what is left
 */
export async function startTracing(
  service: string,
  env: Readonly<Record<string, string | undefined>>,
): Promise<() => Promise<void>> {
  if (!wantsTraces(env)) return async () => undefined;
  const { openTracer } = await import('./opentelemetry.ts');
  const opened = openTracer(service, env);
  tracer = opened;
  return async () => {
    if (tracer === opened) tracer = null;
    await opened.close();
  };
}
