/** One plugin of the catalog. */
import { Skeleton, Stack, Text, Title } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useParams } from '@tanstack/react-router';
import { bodyOf, rest } from '../rest/client.ts';
import { PageFailure } from '../shell/page-failure.tsx';

export function EntryPage() {
  const { slug } = useParams({ from: '/catalog/$slug' });
  const entry = useQuery({
    queryKey: ['marketplace', 'entry', slug],
    queryFn: () => bodyOf(rest.GET('/marketplace/{slug}', { params: { path: { slug } } })),
  });
  if (entry.error) return <PageFailure error={entry.error} reset={() => void entry.refetch()} />;
  if (!entry.data) return <Skeleton height={240} aria-label="Loading" />;
  return (
    <Stack>
      <Title order={1} className="foreign">
        {entry.data.displayName}
      </Title>
      <Text className="foreign">{entry.data.description}</Text>
    </Stack>
  );
}
