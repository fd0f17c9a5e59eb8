/** One delivery: its way, its headers and its payload, exactly as they came. */

import { Button, Group, Skeleton, Stack, Text, Title } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useAction } from '../rest/action.ts';
import { bodyOf, rest } from '../rest/client.ts';
import { Facts } from '../shell/facts.tsx';
import { Moment } from '../shell/moment.tsx';
import { PageFailure } from '../shell/page-failure.tsx';
import { Payload } from '../shell/payload.tsx';
import { visibleText } from '../style/visible-text.ts';
import { AttemptState } from './attempt-state.tsx';

interface Shown {
  readonly installationId: string;
  readonly deliveryId: string;
}

export function DeliveryDetail({ installationId, deliveryId }: Shown) {
  const target = { params: { path: { id: installationId, deliveryId } } };
  const found = useQuery({
    queryKey: ['deliveries', installationId, 'one', deliveryId],
    queryFn: () => bodyOf(rest.GET('/installations/{id}/deliveries/{deliveryId}', target)),
  });
  const replay = useAction<void, unknown>(
    () => rest.POST('/installations/{id}/deliveries/{deliveryId}/replay', target),
    'It is delivered again',
  );
  if (found.error) return <PageFailure error={found.error} />;
  if (!found.data) return <Skeleton height={160} aria-label="Loading" />;
  const { headers, body, bodyEncoding, bodyTruncated, lastError, ...delivery } = found.data;
  return (
    <Stack>
      <Facts
        rows={[
          ['State', <AttemptState key="state" state={delivery.state} lastError={null} />],
          ['Attempts', delivery.attempts],
          ['Received', <Moment key="received" at={delivery.receivedAt} />],
          ['Next attempt', <Moment key="next" at={delivery.nextAttemptAt} none="none" />],
          ['Request', visibleText(`${delivery.method} ${delivery.query}`)],
          ['Last error', lastError === null ? 'none' : visibleText(lastError)],
        ]}
      />
      <Title order={3} fz="sm">
        Headers
      </Title>
      <Payload>{visibleText(headers.map(([name, value]) => `${name}: ${value}`).join('\n'))}</Payload>
      <Title order={3} fz="sm">
        Payload{bodyEncoding === 'base64' ? ' (base64)' : ''}
      </Title>
      <Payload>{visibleText(body)}</Payload>
      {bodyTruncated ? <Text size="sm">Only its beginning is shown.</Text> : null}
      <Group justify="flex-end">
        <Button variant="default" loading={replay.isPending} onClick={() => replay.mutate()}>
          Replay
        </Button>
      </Group>
    </Stack>
  );
}
