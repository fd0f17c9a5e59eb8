/** Response bodies that a child reads while they arrive, without a server. */
import { getEventListeners } from 'node:events';
import t from 'tap';
import { BodyStreams, STREAM_BOUNDS } from '../../../supervisor/host/http/body-streams.ts';

t.test('a closed body leaves no listener on the signal of its child', async (t) => {
  const { signal } = new AbortController();
  const stream = new BodyStreams(STREAM_BOUNDS).open(signal, 'a', STREAM_BOUNDS.idleMs);
  stream.closeOn(signal, 'the plugin has ended');
  stream.close('the request failed');
  stream.closeOn(signal, 'the plugin has ended');
  t.same(getEventListeners(signal, 'abort'), []);
});

t.test('an id names one open body of a child', async (t) => {
  const streams = new BodyStreams(STREAM_BOUNDS);
  const { signal } = new AbortController();
  const stream = streams.open(signal, 'a', STREAM_BOUNDS.idleMs);
  t.throws(() => streams.open(signal, 'a', STREAM_BOUNDS.idleMs), {
    message: 'a response with this id is open already',
  });
  stream.close('the plugin cancelled it');
  t.ok(streams.open(signal, 'a', STREAM_BOUNDS.idleMs));
});
