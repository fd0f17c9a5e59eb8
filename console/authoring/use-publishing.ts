/** The state of publishing a package or saving it as a draft. */
import { useInputState } from '@mantine/hooks';
import { useMutation } from '@tanstack/react-query';
import { useEffect, useEffectEvent, useState } from 'react';
import { queryClient } from '../rest/query-client.ts';
import type { Dropped } from './package-files.ts';
import { publishVersion, saveDraft } from './publish-requests.ts';

interface PublishingOptions {
  readonly pluginId: string;
  /** Null until the user has chosen a package. */
  readonly dropped: Dropped | null;
  /** Called after each request with its error or null, and with what was sent, which may be older than `dropped`. */
  readonly onAnswer?: (refusal: Error | null, sent: Dropped | null) => void;
  /** Whether faults stay visible while the user edits. */
  readonly keepsFaults?: boolean;
}
export type Publishing = ReturnType<typeof usePublishing>;

export function usePublishing({ pluginId, dropped, onAnswer, keepsFaults = false }: PublishingOptions) {
  const [semVer, setSemVer] = useInputState('');
  const [part, setPart] = useState(0);
  const publish = useMutation({
    mutationFn: (sent: Dropped | null) => publishVersion(pluginId, semVer.trim(), sent, setPart),
    onSettled: (_none, refusal, sent) => onAnswer?.(refusal, sent),
    onSuccess: () => queryClient.invalidateQueries(),
  });
  const draft = useMutation({
    mutationFn: (sent: Dropped | null) => saveDraft(pluginId, sent),
    onSettled: (_saved, refusal, sent) => onAnswer?.(refusal, sent),
    onSuccess: () => queryClient.invalidateQueries(),
  });
  const forget = useEffectEvent(() => {
    for (const request of [publish, draft])
      if (!request.isPending && !(keepsFaults && request.isError)) request.reset();
  });
  // biome-ignore lint/correctness/useExhaustiveDependencies: a new package clears the result of the previous one
  useEffect(() => forget(), [dropped]);
  return {
    dropped,
    semVer,
    setSemVer,
    part,
    publish,
    draft,
    canPublish: dropped !== null && semVer.trim() !== '',
    canSave: dropped !== null && !('zip' in dropped),
  };
}
