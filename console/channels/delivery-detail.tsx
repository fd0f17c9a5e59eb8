/** Shows one delivery with its headers and its payload. */

import { Group, Skeleton, Stack, Text, Title } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { Fragment } from 'react';
import { readBody, rest } from '../rest/client.ts';
import { FOLLOW_MS, type Installation } from '../rest/installations.ts';
import { ActionButton } from '../shell/action-button.tsx';
import { ConfirmButton } from '../shell/confirm-button.tsx';
import { DescriptionList } from '../shell/description-list.tsx';
import { ErrorAlert } from '../shell/error-alert.tsx';
import { LogLink } from '../shell/log-link.tsx';
import { Monospace } from '../shell/monospace.tsx';
import { PreformattedText } from '../shell/preformatted-text.tsx';
import { Timestamp } from '../shell/timestamp.tsx';
import { escapeText } from '../style/untrusted-text.ts';
import { AttemptState } from './attempt-state.tsx';

interface Props {
  readonly installationId: string;
  readonly deliveryId: string;
  /** Those that are connected. */
  readonly channels: Installation['channels'];
  /** Shows another delivery. */
  readonly onOpen: (id: string) => void;
}

export function DeliveryDetail({ installationId, deliveryId, channels, onOpen }: Props) {
  const target = { params: { path: { id: installationId, deliveryId } } };
  const found = useQuery({
    queryKey: ['deliveries', installationId, 'one', deliveryId],
    queryFn: () => readBody(rest.GET('/installations/{id}/deliveries/{deliveryId}', target)),
    refetchInterval: ({ state }) => (state.data?.state === 'pending' ? FOLLOW_MS : false),
  });
  if (found.error && !found.data) return <ErrorAlert error={found.error} reset={() => void found.refetch()} />;
  if (!found.data) return <Skeleton height={160} aria-label="Loading" />;
  const { headers, body, bodyEncoding, bodyTruncated, lastError, ...delivery } = found.data;
  const isPending = delivery.state === 'pending';
  const isConnected = channels.some(({ id }) => id === delivery.channelId);
  return (
    <Stack>
      <DescriptionList
        rows={[
          ['Id', <Monospace key="id">{delivery.id}</Monospace>],
          [
            'State',
            <Fragment key="state">
              <AttemptState {...delivery} lastError={null} onOpen={onOpen} />
              {delivery.state === 'delivered' && delivery.direction === 'in' ? (
                <Handled installationId={installationId} />
              ) : null}
            </Fragment>,
          ],
          ['Attempts', delivery.attempts],
          ['Received', <Timestamp key="received" at={delivery.receivedAt} />],
          ['Next attempt', <Timestamp key="next" at={delivery.waitsFor ? null : delivery.nextAttemptAt} none="none" />],
          ['Request', escapeText(`${delivery.method} ${delivery.query}`)],
          ['Last error', lastError === null ? 'none' : escapeText(lastError)],
        ]}
      />
      <Title order={3} fz="sm">
        Headers
      </Title>
      <PreformattedText>{escapeText(headers.map(([name, value]) => `${name}: ${value}`).join('\n'))}</PreformattedText>
      <Title order={3} fz="sm">
        Payload{bodyEncoding === 'base64' ? ' (base64)' : ''}
      </Title>
      <PreformattedText>{escapeText(body)}</PreformattedText>
      {bodyTruncated ? <Text size="sm">The payload is truncated.</Text> : null}
      {/* Replay is apart from Try now, which it replaces: the service may deliver in the moment when Try now is pressed. */}
      <Group justify={isPending ? 'flex-end' : 'flex-start'}>
        {isPending ? (
          <>
            <ConfirmButton
              label="Give up"
              title="Give up this delivery"
              run={() => rest.POST('/installations/{id}/deliveries/{deliveryId}/give-up', target)}
              done="The delivery is a dead letter now. The channel continues with the next one"
              button={{ size: 'sm' }}
            >
              <Text>It becomes a dead letter and the next one follows. You can replay it later.</Text>
            </ConfirmButton>
            <ActionButton
              size="sm"
              run={() => rest.POST('/installations/{id}/deliveries/{deliveryId}/try-now', target)}
              done="It is attempted now"
            >
              Try now
            </ActionButton>
          </>
        ) : !isConnected ? (
          <Text size="sm" c="dimmed">
            Its channel is disconnected, so it cannot be delivered again.
          </Text>
        ) : (
          <ActionButton
            size="sm"
            run={() => rest.POST('/installations/{id}/deliveries/{deliveryId}/replay', target)}
            done="It is delivered again, after those that wait"
          >
            Replay
          </ActionButton>
        )}
      </Group>
    </Stack>
  );
}

/** A plugin may drop a request, such as one with a wrong signature, without an error. */
function Handled({ installationId }: { readonly installationId: string }) {
  return (
    <Text size="sm" c="dimmed">
      The plugin has handled the request. <LogLink installationId={installationId}>Its log</LogLink> may say whether it
      made a message of it or dropped it.
    </Text>
  );
}
