/** A package's number, the buttons that publish it or save it as draft, and what the service found wrong with it. */
import { Button, Group, Progress, Stack, Text, TextInput } from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import { useEffect, useEffectEvent, useState } from 'react';
import { queries } from '../rest/queries.ts';
import type { Dropped } from './package-files.ts';
import { type OnPlace, PublishFaults } from './publish-faults.tsx';
import { publishVersion, saveDraft } from './sending.ts';

interface Sent {
  readonly pluginId: string;
  /** Null: there is nothing to send yet. */
  readonly dropped: Dropped | null;
  /** The last answer: a refusal, or null. */
  readonly onAnswer?: (refusal: Error | null, isDraft: boolean) => void;
  readonly onPlace?: OnPlace;
  /** Faults are worked off one by one, and stay until the next answer. */
  readonly keepsFaults?: boolean;
}

export function SendButtons({ pluginId, dropped, onAnswer, onPlace, keepsFaults = false }: Sent) {
  const [semVer, setSemVer] = useState('');
  const [part, setPart] = useState(0);
  const publish = useMutation({
    mutationFn: () => publishVersion(pluginId, semVer.trim(), dropped, setPart),
    onSettled: (_none, refusal) => onAnswer?.(refusal, false),
    onSuccess: () => queries.invalidateQueries(),
  });
  const draft = useMutation({
    mutationFn: () => saveDraft(pluginId, dropped),
    onSettled: (_saved, refusal) => onAnswer?.(refusal, true),
    onSuccess: () => queries.invalidateQueries(),
  });
  const forget = useEffectEvent(() => {
    for (const sent of [publish, draft]) if (!(keepsFaults && sent.isError)) sent.reset();
  });
  // biome-ignore lint/correctness/useExhaustiveDependencies: what was said of another package is not said of this one
  useEffect(() => forget(), [dropped]);
  const error = publish.error ?? draft.error;
  return (
    <Stack>
      <Group align="flex-end">
        <TextInput
          label="Version"
          placeholder="1.0.0"
          value={semVer}
          onChange={(event) => setSemVer(event.currentTarget.value)}
        />
        <Button
          disabled={dropped === null || semVer.trim() === ''}
          loading={publish.isPending}
          onClick={() => publish.mutate()}
        >
          Publish
        </Button>
        <Button
          variant="default"
          disabled={dropped === null || 'zip' in dropped}
          loading={draft.isPending}
          onClick={() => draft.mutate()}
        >
          Save as draft
        </Button>
      </Group>
      {publish.isPending ? <Progress value={part * 100} aria-label="Sent" /> : null}
      <div role="status">
        {publish.isSuccess ? <Text>Published. It cannot be changed any more; a fix is a new version.</Text> : null}
        {draft.data ? <Text>The draft is saved. {draft.data.warnings.join(' ')}</Text> : null}
      </div>
      {error ? <PublishFaults error={error} {...(onPlace ? { onPlace } : {})} /> : null}
    </Stack>
  );
}
