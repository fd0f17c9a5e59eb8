/** Declares the interfaces between traced code and the OpenTelemetry exporter. */

type Attributes = Readonly<Record<string, string | number | boolean>>;
export interface SpanSettings {
  readonly kind?: 'server' | 'consumer' | 'internal';
  /** W3C traceparent of the parent span. Default: the current span. Null: no parent. */
  readonly parent?: string | null | undefined;
  /** W3C traceparent of a related trace from an untrusted sender, which must not become the parent. */
  readonly link?: string | undefined;
  /** Ids, protocol keys and slugs; never text from plugins or users. */
  readonly attributes?: Attributes;
}
export interface Span {
  setAttributes(attributes: Attributes): void;
  /** Marks the span as failed. Error texts stay out of traces. */
  markFailed(): void;
}
export interface Tracer {
  run<T>(name: string, settings: SpanSettings, work: (span: Span) => Promise<T>): Promise<T>;
  /** Returns the W3C traceparent of the current span. */
  current(): string | null;
  /** Exports the remaining spans. */
  close(): Promise<void>;
}
