import { frameBytes } from '../../sandbox-child/frame.ts';
import { encodeMessage } from '../../sandbox-child/message.ts';

/** A message as the exact bytes of its frame. */
export function encodedFrame(message: object): Buffer {
  const buffer = encodeMessage(message);
  return buffer.subarray(0, frameBytes(buffer));
}
