/**
 * The format of a spool file: records with length and checksum, so that a partial record at the end (the process was killed
 * while it wrote) is detected.
 *
 *     u32 length of what follows │ u32 CRC-32 of it │ u32 length of the head │ head, JSON │ body
 */
import { crc32 } from 'node:zlib';
import type { NewDelivery } from '../../db/channels/deliveries.ts';
import { MIB } from '../../sdk/contract/limits.ts';

const PREFIX_BYTES = 8;

export function encodeRecord({ body, ...head }: NewDelivery): Buffer {
  const text = Buffer.from(JSON.stringify(head));
  const record = Buffer.allocUnsafe(PREFIX_BYTES + 4 + text.byteLength + body.byteLength);
  record.writeUInt32LE(record.byteLength - PREFIX_BYTES, 0);
  record.writeUInt32LE(text.byteLength, PREFIX_BYTES);
  text.copy(record, PREFIX_BYTES + 4);
  body.copy(record, PREFIX_BYTES + 4 + text.byteLength);
  record.writeUInt32LE(crc32(record.subarray(PREFIX_BYTES)), 4);
  return record;
}

interface Decoded {
  readonly deliveries: NewDelivery[];
  /** Offset behind the last complete record. */
  readonly end: number;
  /** A complete record does not have its checksum: the disk changed it. */
  readonly isDamaged: boolean;
}

/** Every record's head begins with it. */
const HEAD_START = '{"';
/** Bytes that a search for records may hash, as many as several segments have. */
const HASHED_BYTES_MAX = 64 * MIB;

/** Decodes complete records from `start`: at least one, then up to `maxBytes`. Skips damaged ones. */
export function decodeRecords(segment: Buffer, start: number, maxBytes: number): Decoded {
  const deliveries: NewDelivery[] = [];
  let at = start;
  let isDamaged = false;
  while (at + PREFIX_BYTES <= segment.byteLength && (at - start < maxBytes || deliveries.length === 0)) {
    const end = at + PREFIX_BYTES + segment.readUInt32LE(at);
    if (end > segment.byteLength) break;
    const content = segment.subarray(at + PREFIX_BYTES, end);
    // Zeros, where a machine stopped before the file system had written the content.
    if (content.byteLength === 0) break;
    const isIntact = crc32(content) === segment.readUInt32LE(at + 4);
    at = end;
    if (!isIntact) {
      isDamaged = true;
      continue;
    }
    const bodyStart = 4 + content.readUInt32LE(0);
    const head: Omit<NewDelivery, 'body'> = JSON.parse(content.toString('utf8', 4, bodyStart));
    deliveries.push({ ...head, body: content.subarray(bodyStart) });
  }
  return { deliveries, end: at, isDamaged };
}

/**
 * Whether bytes that cannot be decoded are more than the part of a record whose writing was interrupted. A length that the disk
 * changed looks the same, but complete records follow it, or the rest as a whole has the checksum.
 *
 * The records found here must not be delivered: the body of a request may contain what looks like one.
 */
export function hasCompleteRecord(rest: Buffer): boolean {
  if (rest.byteLength <= PREFIX_BYTES) return false;
  if (crc32(rest.subarray(PREFIX_BYTES)) === rest.readUInt32LE(4)) return true;
  let hashedBytes = 0;
  for (let head = rest.indexOf(HEAD_START); head !== -1; head = rest.indexOf(HEAD_START, head + 1)) {
    const at = head - PREFIX_BYTES - 4;
    if (at < 0) continue;
    const length = rest.readUInt32LE(at);
    const content = rest.subarray(at + PREFIX_BYTES, at + PREFIX_BYTES + length);
    if (length <= 4 || content.byteLength < length) continue;
    if (crc32(content) === rest.readUInt32LE(at + 4)) return true;
    hashedBytes += length;
    // A body can be made so that each of its bytes seems to begin a record. Keep the file rather than block the process.
    if (hashedBytes > HASHED_BYTES_MAX) return true;
  }
  return false;
}
