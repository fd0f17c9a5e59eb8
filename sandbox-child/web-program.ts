/**
 * Web APIs that most plugins never use, such as `fetch` and streams. On first use, this program runs in a compartment of the
 * plugin's realm, with the realm's intrinsics and the globals of plugins. See `web-globals.ts`.
 */
import { nameClasses } from './class-names.ts';
import { Blob, File } from './web/blob.ts';
import { ByteLengthQueuingStrategy, CountQueuingStrategy } from './web/chunk-queue.ts';
import { createFetch } from './web/fetch.ts';
import { FormData } from './web/form-data.ts';
import { Headers } from './web/header-list.ts';
import {
  ReadableByteStreamController,
  ReadableStream,
  ReadableStreamDefaultController,
  ReadableStreamDefaultReader,
} from './web/readable-stream.ts';
import { Request, Response } from './web/request.ts';
import {
  TextDecoderStream,
  TextEncoderStream,
  TransformStream,
  TransformStreamDefaultController,
} from './web/transform-stream.ts';
import { WritableStream, WritableStreamDefaultController, WritableStreamDefaultWriter } from './web/writable-stream.ts';

const classes = {
  Blob,
  ByteLengthQueuingStrategy,
  CountQueuingStrategy,
  File,
  FormData,
  Headers,
  ReadableByteStreamController,
  ReadableStream,
  ReadableStreamDefaultController,
  ReadableStreamDefaultReader,
  Request,
  Response,
  TextDecoderStream,
  TextEncoderStream,
  TransformStream,
  TransformStreamDefaultController,
  WritableStream,
  WritableStreamDefaultController,
  WritableStreamDefaultWriter,
};
nameClasses(classes);

/** The exports that `web-globals.ts` reads. */
export interface WebProgram {
  readonly classes: typeof classes;
  readonly createFetch: typeof createFetch;
}
export { classes, createFetch };
