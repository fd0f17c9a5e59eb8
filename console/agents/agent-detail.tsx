/** Shows all details of one agent. */
import { Skeleton, Stack, Title } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { readBody, rest } from '../rest/client.ts';
import { DescriptionList } from '../shell/description-list.tsx';
import { ErrorAlert } from '../shell/error-alert.tsx';
import { PreformattedText } from '../shell/preformatted-text.tsx';
import { Timestamp } from '../shell/timestamp.tsx';
import { escapeText } from '../style/untrusted-text.ts';

export function AgentDetail({ id }: { readonly id: string }) {
  const found = useQuery({
    queryKey: ['agents', id],
    queryFn: () => readBody(rest.GET('/agents/{id}', { params: { path: { id } } })),
  });
  if (found.error) return <ErrorAlert error={found.error} />;
  if (!found.data) return <Skeleton height={160} aria-label="Loading" />;
  const { name, instructions, model, slug, createdAt, updatedAt } = found.data;
  return (
    <Stack>
      <DescriptionList
        rows={[
          ['Name', escapeText(name)],
          ['Made by', slug ?? 'an uninstalled plugin'],
          ['Model', model === null ? 'default' : escapeText(model)],
          ['Made', <Timestamp key="made" at={createdAt} />],
          ['Changed', <Timestamp key="changed" at={updatedAt} />],
        ]}
      />
      <Title order={3} fz="sm">
        Instructions
      </Title>
      <PreformattedText>{escapeText(instructions) || 'none'}</PreformattedText>
    </Stack>
  );
}
